"""The kernels compile within harness/compress/cuda/kernels.tsv, for sm_90, with KVC_TEST_MORE for sm_80 as well; skipped
(77) without nvcc or nvdisasm."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
os.execv(sys.executable, [sys.executable, os.path.join(ROOT, "bench", "cuda_kernels.py"), "--check", "--architectures", "sm_90",
                          *(["sm_80"] if os.environ.get("KVC_TEST_MORE") else [])])
