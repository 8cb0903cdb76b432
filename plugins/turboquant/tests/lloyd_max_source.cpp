#include "../lloyd_max.cpp"  // the plugin exports nothing of it
