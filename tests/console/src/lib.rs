//! Nothing: see tests/ and examples/.
