// A shared library without the symbol kvc_plugin.
extern "C" int not_a_plugin() { return 1; }
