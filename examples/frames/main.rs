//! Async tasks between the frames of a program with a loop of its own, as that of a GUI or a game is: here one without a window.
//!
//! The loop draws 60 frames a second. Between two frames it waits for events, and the runtime posts one when it has something to do
//! ([`on_wake`]); each event, and each frame, gives the runtime a turn of at most a fourth of a frame. Its tasks share the
//! state with the loop, by `Rc`: a timer moves a ball, a socket brings moves from another thread, a channel brings results of a computation.
//!
//! Sockets do not post events: the turn of the next frame hears of them. With `--fd` the loop sleeps on the runtime's descriptor
//! instead, as loops over `poll` do, and hears of them at once.
//!
//! [`on_wake`]: filch_linux::Builder::on_wake
#![cfg(target_os = "linux")]

use core::{cell::RefCell, error::Error, time::Duration};
use std::{
    env,
    io::Write,
    os::unix::net,
    process::ExitCode,
    rc::Rc,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Instant,
};

use filch_linux::{Builder, LocalRuntime, net::UnixStream, runtime::Turn, spawn_blocking, time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const HELP: &str = "\
Usage: frames [--fd] [FRAMES]
Draws so many frames (default: 60), 60 a second, with async tasks between them.

  --fd    sleep on the runtime's descriptor, not in a queue of events
";

/// One of 60 a second.
const FRAME: Duration = Duration::from_micros(16_667);

/// What the frames show. The tasks change it; no lock is needed, as all is on one thread.
#[derive(Default)]
struct Scene {
    /// Moved by a timer.
    ball: u32,
    /// Moved by bytes from a socket.
    player: u32,
    /// Results of computations.
    scores: Vec<u64>,
}

/// An event of the loop. One with a window has many more: keys, sizes, clicks.
struct WakeUp;

fn main() -> ExitCode {
    let (mut by_fd, mut frames) = (false, 60);
    for arg in env::args().skip(1) {
        match (arg.as_str(), arg.parse()) {
            ("--fd", _) => by_fd = true,
            (_, Ok(n)) => frames = n,
            _ => {
                print!("{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    match run(frames, by_fd) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("frames: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(frames: u32, by_fd: bool) -> Result<(), Box<dyn Error>> {
    let (post, events) = channel();
    // The loop may have ended: then nothing is left to be told.
    let on_wake = move || post.send(WakeUp).unwrap_or_default();
    let runtime = Builder::new().on_wake(on_wake).build_local()?;
    let scene = Rc::new(RefCell::new(Scene::default()));
    play(&runtime, &scene)?;
    let (begin, mut wakes) = (Instant::now(), 0);
    for frame in 1..=frames {
        let end = begin + FRAME * frame;
        loop {
            let turn = runtime.turn_for(FRAME / 4);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            wakes += u32::from(match by_fd {
                false => wait(&events, turn, left),
                true => wait_on(&runtime, turn, left)?,
            });
        }
        draw(frame, &scene.borrow());
    }
    println!();
    let scene = scene.borrow();
    println!(
        "{frames} frames in {:?}: ball {}, player {}, scores {}, woken {wakes} times",
        begin.elapsed(),
        scene.ball,
        scene.player,
        scene.scores.len(),
    );
    Ok(())
}

/// Sleeps until there is an event, until the runtime has a timer, or until the frame ends. Whether there was an event.
fn wait(events: &Receiver<WakeUp>, turn: Turn, left: Duration) -> bool {
    let time = turn.timeout().map_or(left, |time| time.min(left));
    match events.recv_timeout(time) {
        Ok(WakeUp) => true,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
    }
}

/// As `wait`, on the runtime's descriptor. A loop with a window has others beside it.
fn wait_on(runtime: &LocalRuntime, turn: Turn, left: Duration) -> Result<bool, Box<dyn Error>> {
    let time = turn.timeout().map_or(left, |time| time.min(left));
    let time = Timespec::try_from(time)?;
    Ok(poll(&mut [PollFd::new(runtime, PollFlags::IN)], Some(&time))? > 0)
}

fn draw(frame: u32, scene: &Scene) {
    let Scene { ball, player, scores } = scene;
    print!("\rframe {frame}: ball {ball}, player {player}, scores {}", scores.len());
    let _ = std::io::stdout().flush();
}

/// Starts what changes the scene: on the runtime, by tasks that are not `Send`.
fn play(runtime: &LocalRuntime, scene: &Rc<RefCell<Scene>>) -> Result<(), Box<dyn Error>> {
    let moved = Rc::clone(scene);
    runtime
        .spawn_local(async move {
            let mut ticks = time::interval(Duration::from_millis(5));
            loop {
                ticks.tick().await;
                moved.borrow_mut().ball += 1;
            }
        })?
        .detach();
    let (ours, mut theirs) = net::UnixStream::pair()?;
    // The other player: it ends when the program has closed its end.
    thread::spawn(move || {
        while theirs.write_all(b"moves").is_ok() {
            thread::sleep(Duration::from_millis(7));
        }
    });
    let moved = Rc::clone(scene);
    runtime
        .spawn_local(async move {
            let (stream, mut bytes) = (UnixStream::try_from(ours)?, [0; 64]);
            loop {
                match stream.read(&mut bytes).await? {
                    0 => return Ok::<_, std::io::Error>(()),
                    n => moved.borrow_mut().player += n as u32,
                }
            }
        })?
        .detach();
    let (send, receive) = async_channel::bounded(4);
    runtime
        .spawn_local(async move {
            for n in 0.. {
                let score =
                    spawn_blocking(move || (0..10_000 + n).fold(0, |a: u64, b| a ^ (b * b))).await;
                match score {
                    Ok(score) if send.send(score).await.is_ok() => {}
                    _ => return,
                }
                filch_linux::time::sleep(Duration::from_millis(20)).await;
            }
        })?
        .detach();
    let scored = Rc::clone(scene);
    runtime
        .spawn_local(async move {
            while let Ok(score) = receive.recv().await {
                scored.borrow_mut().scores.push(score);
            }
        })?
        .detach();
    Ok(())
}
