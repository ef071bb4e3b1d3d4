//! Programs that must not compile: each would break a guarantee of the interface. They are here, and not in filch-tests, as they are compiled with all
//! that their crate's tests depend on.

#[test]
fn unsound_programs_are_refused() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
