// In a coverage build `_exit` is this: a process that ends without its ends of scope still writes what it counted.
extern "C" {
void __gcov_dump();
[[noreturn]] void __real__exit(int status);
[[noreturn]] void __wrap__exit(int status) {
  __gcov_dump();
  __real__exit(status);
}
}
