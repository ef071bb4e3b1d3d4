//! A slot that was reserved for a small task must not take a large one, though one future's type is a subtype of the
//! other's.

#![allow(coherence_leak_check)]

use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use filch::Reservation;

struct Ready<T>(PhantomData<T>);

type Small = Ready<fn(&'static ())>;
type Large = Ready<for<'a> fn(&'a ())>;

impl Future for Small {
    type Output = u8;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u8> {
        Poll::Ready(1)
    }
}

impl Future for Large {
    type Output = [u8; 4096];
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<[u8; 4096]> {
        Poll::Ready([1; 4096])
    }
}

fn enlarge(small: Reservation<Small>) -> Reservation<Large> {
    small
}

fn main() {
    let _ = enlarge;
}
