//! The part of Perfetto's messages that is written here. The tags are those of `trace_packet.proto`, and of `track_event.proto`,
//! `track_descriptor.proto` and their neighbours in `protos/perfetto/trace/track_event`.

use std::{string::String, vec::Vec};

use prost::Message;

/// Of a sequence's first packet: it refers to nothing before it.
pub(super) const STATE_CLEARED: u32 = 1;

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(super) time: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) sequence: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) flags: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(super) event: Option<Event>,
    #[prost(message, optional, tag = "60")]
    pub(super) track: Option<Track>,
}

impl Packet {
    /// Writes it as one of a `Trace`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        prost::encoding::message::encode(1, self, out);
    }
}

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Track {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<Process>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<Thread>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
}

/// `ProcessDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
}

/// `ThreadDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(super) thread_name: Option<String>,
}

/// `TrackEvent`. Its lists are not packed, as in all files of the second syntax.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(message, repeated, tag = "4")]
    pub(super) notes: Vec<Annotation>,
    #[prost(enumeration = "Kind", optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flows: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) flows_end: Vec<u64>,
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Kind {
    Unspecified = 0,
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// `DebugAnnotation`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Annotation {
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(oneof = "Value", tags = "2, 3, 6, 7")]
    pub(super) value: Option<Value>,
}

/// A value of an annotation.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(bool, tag = "2")]
    Yes(bool),
    #[prost(uint64, tag = "3")]
    Number(u64),
    #[prost(string, tag = "6")]
    Text(String),
    #[prost(uint64, tag = "7")]
    Pointer(u64),
}
