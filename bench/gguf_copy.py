"""gguf_copy.py SOURCE.gguf TARGET.gguf TYPE: the same model with its matrices in another type (F32, F16, Q8_0, Q4_0, ...),
dequantized and quantized by the `gguf` package. Vectors, and matrices whose rows the type's blocks do not divide, become
F32."""
import sys

import numpy as np


def copy_gguf(source, target, kind):
    import gguf
    reader = gguf.GGUFReader(source)
    wanted = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        of = field.types[0]
        if of == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(name, field.contents(), of, sub_type=field.types[-1])
        else:
            writer.add_key_value(name, field.contents(), of)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape(tensor.shape[::-1])
        fits = values.ndim == 2 and values.shape[1] % gguf.GGML_QUANT_SIZES[wanted][0] == 0
        if kind == "F32" or not fits:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    copy_gguf(*sys.argv[1:])
