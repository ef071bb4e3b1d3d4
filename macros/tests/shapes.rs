//! Every shape of function that the attribute takes, in places that are hard on generated code.
#![deny(warnings)]
#![forbid(unsafe_code)]

use core::{
    future::IntoFuture,
    pin::pin,
    task::{Context, Poll, Waker},
};

use filch::SpawnToken;

/// The output of a future that waits for nothing.
fn output<T: IntoFuture>(task: T) -> T::Output {
    let future = pin!(task.into_future());
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

struct Point {
    x: u32,
    y: u32,
}

#[filch::task]
async fn nothing() {}

#[filch::task()]
async fn patterns(Point { x, y }: Point, (a, mut b): (u32, u32), _: u32, [c, ..]: [u32; 3]) -> u32 {
    b += 1;
    x + y + a + b + c
}

#[allow(clippy::toplevel_ref_arg)]
#[filch::task(pool_size = 2)]
async fn mutable(mut n: u32, ref r: u32, whole @ Point { x: _, .. }: Point) -> u32 {
    n += *r;
    n + whole.x
}

#[filch::task]
async fn shadows(argument0: u32, _: u32, (argument1, _): (u32, u32), any: u32) -> u32 {
    argument0 + argument1 + any
}

#[filch::task]
async fn constrained(x: u32) -> u32
where
    u32: Copy,
    Vec<u32>: Clone,
{
    x
}

/// It has a comment,
/// and more.
#[allow(unused_variables, clippy::too_many_arguments)]
#[deprecated = "only here"]
#[cfg_attr(all(), doc = "Under a condition.")]
#[filch::task]
#[expect(unused_mut)]
async fn attributes(
    a: u8,
    b: u8,
    c: u8,
    d: u8,
    e: u8,
    f: u8,
    g: u8,
    #[allow(unused_variables)] mut h: u8,
) {
    let unused = 1;
}

#[filch::task]
#[cfg(any())]
async fn configured(missing: Missing) {}

#[filch::task]
#[cfg(test)]
async fn configured() -> u32 {
    3
}

#[filch::task]
async fn early(n: u32) -> Result<u32, core::num::ParseIntError> {
    if n == 0 {
        return Ok(0);
    }
    let parsed: u32 = "17".parse()?;
    Ok(parsed + n)
}

#[filch::task]
async fn display(n: u32) -> impl core::fmt::Display {
    n
}

#[filch::task]
async fn diverges() -> ! {
    loop {
        filch::yield_now().await;
    }
}

/// Types with elided and bound lifetimes that are no borrows.
#[filch::task]
async fn borrows_nothing(
    text: &'static str,
    length: fn(&str) -> usize,
    dynamic: Box<dyn Fn(&str) -> usize + Send>,
    bound: Box<dyn for<'a> Fn(&'a str) -> &'a str + Send>,
    lengths: [&'static str; "ab".len()],
) -> usize {
    length(text) + dynamic(text) + bound(text).len() + lengths.len()
}

// Fulfilled once, by the function that makes the tokens.
#[expect(clippy::too_many_arguments)]
#[filch::task]
async fn seventeen(
    a: u8,
    b: u8,
    c: u8,
    d: u8,
    e: u8,
    f: u8,
    g: u8,
    h: u8,
    i: u8,
    j: u8,
    k: u8,
    l: u8,
    m: u8,
    n: u8,
    o: u8,
    p: u8,
    q: u8,
) -> u8 {
    a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q
}

mod visible {
    pub(crate) mod deep {
        #[filch::task]
        pub(in crate::visible) async fn restricted() -> u32 {
            inherited().await
        }
        #[filch::task]
        async fn inherited() -> u32 {
            4
        }
        #[filch::task]
        pub(crate) async fn public() -> u32 {
            5
        }
    }
    pub(crate) async fn restricted() -> u32 {
        deep::restricted().await
    }
}

struct Board;

impl Board {
    /// An associated function without a receiver.
    #[filch::task]
    async fn start(n: u32) -> u32 {
        n + 1
    }
}

macro_rules! tasks {
    ($($name:ident($argument:ident: $type:ty) -> $output:ty $body:block)*) => {
        $(
            #[filch::task]
            async fn $name($argument: $type) -> $output $body
        )*
    };
}
tasks! {
    by_macro(n: u32) -> u32 { n + 1 }
    by_macro_again(n: &'static str) -> usize { n.len() }
}

/// Everything that generated code could name means something else here.
#[allow(dead_code, non_camel_case_types)]
mod shadowed {
    mod core {}
    mod std {}
    mod filch {}
    struct Option;
    struct Future;
    trait Send {}
    trait Fn {}
    struct SpawnToken;
    struct StaticTasks;
    struct Slots;
    type usize = str;
    type u32 = i8;
    fn any() {}
    const N: i8 = 3;
    static POOL: i8 = 4;
    mod renamed {
        pub(super) mod exec {
            pub(crate) use ::filch::*;
        }
    }

    #[::filch::task(pool_size = 3)]
    pub(crate) async fn task(n: u32, option: Option) -> (u32, i8) {
        let _: Option = option;
        any();
        (n + POOL, N)
    }

    #[renamed::exec::task(crate = renamed::exec, pool_size = 3,)]
    pub(crate) async fn renamed_task(n: u32) -> u32 {
        n
    }

    pub(crate) fn outputs() -> ((u32, i8), u32) {
        (super::output(task(1, Option)), super::output(renamed_task(2)))
    }
}

mod without_prelude {
    #![no_implicit_prelude]
    #[::filch::task(local)]
    pub(crate) async fn task(n: u32) -> u32 {
        n
    }
}

const SLOTS: usize = 3;

#[filch::task(pool_size = SLOTS + size_of::<u32>())]
async fn many() {}

#[test]
fn functions_do_what_they_say() {
    output(nothing());
    let point = || Point { x: 1, y: 2 };
    assert_eq!(output(patterns(point(), (3, 4), 100, [5, 100, 100])), 1 + 2 + 3 + 5 + 5);
    assert_eq!(output(mutable(1, 2, point())), 4);
    assert_eq!(output(shadows(1, 100, (2, 100), 3)), 6);
    assert_eq!(output(constrained(7)), 7);
    assert_eq!(output(configured()), 3);
    assert_eq!(output(early(0)), Ok(0));
    assert_eq!(output(early(3)), Ok(20));
    assert_eq!(output(display(8)).to_string(), "8");
    assert_eq!(
        output(borrows_nothing("abc", str::len, Box::new(str::len), Box::new(|s| s), ["", ""])),
        11
    );
    assert_eq!(output(seventeen(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)), 18);
    assert_eq!(output(visible::restricted()), 4);
    assert_eq!(output(visible::deep::public()), 5);
    assert_eq!(output(Board::start(1)), 2);
    assert_eq!(output(by_macro(1)), 2);
    assert_eq!(output(by_macro_again("abc")), 3);
    assert_eq!(shadowed::outputs(), ((5, 3), 2));
    assert_eq!(output(without_prelude::task(9)), 9);
    output(many());
    #[allow(deprecated)]
    output(attributes(1, 2, 3, 4, 5, 6, 7, 8));
}

#[test]
fn what_does_not_end_has_a_token_too() {
    fn never<F: Future<Output = T>, T>(_: &SpawnToken<F>) -> &'static str {
        core::any::type_name::<T>()
    }
    assert_eq!(never(&diverges()), "!");
}

/// Functions within functions: nothing is added to the module but the function itself.
#[test]
fn two_tasks_of_one_name_in_two_functions() {
    fn first() -> u32 {
        #[filch::task]
        async fn task() -> u32 {
            1
        }
        output(task())
    }
    fn second() -> u32 {
        #[filch::task]
        async fn task() -> u32 {
            2
        }
        output(task())
    }
    assert_eq!((first(), second()), (1, 2));
}
