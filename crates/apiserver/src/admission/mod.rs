//! tmp
#[derive(Clone, Copy)]
pub enum Operation {
    Create,
    Update,
    Delete,
}
