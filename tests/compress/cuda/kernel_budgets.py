"""The kernels compile within harness/compress/cuda/kernels.tsv; skipped (77) without nvcc or nvdisasm."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
os.execv(sys.executable, [sys.executable, os.path.join(ROOT, "bench", "cuda_kernels.py"), "--check"])
