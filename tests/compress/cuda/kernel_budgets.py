"""The kernels compile within harness/compress/cuda/kernels.tsv, for sm_90, unless that was made from the same sources by the
same nvcc; with KVC_TEST_MORE in any case, and for sm_80 as well. Skipped (77) without nvcc or nvdisasm."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
MORE = bool(os.environ.get("KVC_TEST_MORE"))
os.execv(sys.executable, [sys.executable, os.path.join(ROOT, "bench", "cuda_kernels.py"), "--check", "--architectures",
                          "sm_90", *(["sm_80"] if MORE else ["--unless-unchanged"])])
