//! Away and back: controllers that are down, partitions, members that leave and return, members with terms of their own.
