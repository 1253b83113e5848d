mod anything;
mod cases;
mod model;
mod world;
