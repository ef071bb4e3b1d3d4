//! What Chrome's viewer is given of a recorded program.
#![cfg(feature = "read")]

mod scene;

use filch_trace::read::Trace;
use serde_json::Value;

#[test]
fn the_json_has_all_polls() {
    let _watchdog = filch_test_support::watchdog();
    let trace = Trace::read(&scene::record()).unwrap();
    let mut json = Vec::new();
    trace.chrome(&mut json).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["otherData"]["begin_ns"], trace.story().span.0);
    let events = json["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|e| e["ph"] == phase).collect::<Vec<_>>();

    let threads: Vec<_> = of("M").into_iter().filter(|e| e["name"] == "thread_name").collect();
    assert_eq!((threads.len(), &threads[0]["args"]["name"]), (2, &Value::from("worker 0")));

    let polls: Vec<_> = of("X").into_iter().filter(|e| e["cat"] == "poll").collect();
    assert_eq!(polls.len(), 5);
    let planted = polls.iter().rfind(|e| e["name"] == "planted").unwrap();
    let length = planted["dur"].as_f64().unwrap();
    assert!((20_000.0..20_010.0).contains(&length), "{length}");
    let args = &planted["args"];
    assert_eq!(args["woken by"], "messenger");
    assert!(args["waited ns"].as_u64().unwrap() >= 3_000_000);
    assert!(args["spawned at"].as_str().unwrap().contains("scene/mod.rs:"));

    let stuck = polls.iter().find(|e| e["name"] == "stuck").unwrap();
    assert_eq!(stuck["args"]["still under way"], true);
    assert!(stuck["dur"].as_f64().unwrap() >= 7_000.0);
    assert_eq!(of("X").iter().filter(|e| e["cat"] == "sleep").count(), trace.story().sleeps.len());
    assert_eq!(of("i").iter().filter(|e| e["name"] == "spawn lonely").count(), 1);
    flows(planted, &of("s"), &of("f"));
}

/// One flow leads from the messenger to the planted poll.
fn flows(planted: &Value, begins: &[&Value], ends: &[&Value]) {
    assert_eq!((begins.len(), ends.len()), (1, 1));
    assert_eq!(begins[0]["id"], ends[0]["id"]);
    assert_eq!((&ends[0]["ts"], &ends[0]["tid"]), (&planted["ts"], &planted["tid"]));
    assert!(begins[0]["ts"].as_f64() < ends[0]["ts"].as_f64());
}
