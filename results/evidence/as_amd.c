// Makes MKL, the library of LibTorch's matrix products, take the kernels that it takes on AMD's processors, so that what
// was computed there repeats to the bit on Intel's with the same vector instructions (tried with LibTorch 2.11, AVX-512):
//   gcc -shared -fPIC -o as_amd.so as_amd.c
//   LD_PRELOAD=$PWD/as_amd.so kvc verify-run DATABASE CELL
int mkl_serv_intel_cpu(void) { return 0; }
int mkl_serv_intel_cpu_true(void) { return 0; }
int mkl_serv_cpuiszen(void) { return 1; }
