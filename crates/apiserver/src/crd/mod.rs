//! Custom resource definitions: what they mean, and what is wrong with them. All pure functions over JSON.

pub mod structural;
