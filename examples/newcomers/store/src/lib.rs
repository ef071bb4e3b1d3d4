//! The service and its messages, made of store.proto.

tonic::include_proto!("store");
