//! Programs that must not compile: each would break a guarantee of the interface.

#[test]
fn unsound_programs_are_refused() {
    trybuild::TestCases::new().compile_fail("compile_fail/*.rs");
}
