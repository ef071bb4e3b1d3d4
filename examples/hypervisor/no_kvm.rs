//! In place of kvm.rs, where that is not compiled.

use crate::guest::Processor;

pub(crate) fn processor() -> Result<Box<dyn Processor>, &'static str> {
    Err("this program was built without the feature kvm, or not for Linux on x86-64")
}
