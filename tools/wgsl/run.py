# SPDX-License-Identifier: MIT
"""Runs WGSL kernels through wgpu on the first Vulkan device and writes back what they stored.

Usage: run.py JOBS.json. Jobs are {"wgsl": file, "groups": [x, y, z], "params": [u32, ...],
"buffers": [{"file": path, "access": "read" | "write" | "inout"}, ...]}. Each buffer is initialised with its file's bytes; written
buffers replace their file. A job that fails is reported on stderr and makes the exit code 1; the others still run.
"""
import json
import struct
import sys

import wgpu


# wgpu has subgroups as a device feature, but does not know the directives that WGSL asks for.
UNKNOWN_DIRECTIVES = ("enable subgroups;", "requires subgroup_id;", "diagnostic(off, subgroup_uniformity);")


def run(device, job):
    lines = open(job["wgsl"]).read().split("\n")
    code = "\n".join("" if line in UNKNOWN_DIRECTIVES else line for line in lines)
    module = device.create_shader_module(code=code)
    entries, written = [], []
    for binding, buffer in enumerate(job["buffers"]):
        data = open(buffer["file"], "rb").read()
        gpu = device.create_buffer_with_data(data=data, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
        entries.append({"binding": binding, "resource": {"buffer": gpu, "offset": 0, "size": len(data)}})
        if buffer["access"] != "read":
            written.append((buffer["file"], gpu))
    layout = [
        {
            "binding": i,
            "visibility": wgpu.ShaderStage.COMPUTE,
            "buffer": {"type": "read-only-storage" if b["access"] == "read" else "storage"},
        }
        for i, b in enumerate(job["buffers"])
    ]
    if job["params"]:
        words = job["params"] + [0] * (-len(job["params"]) % 4)
        gpu = device.create_buffer_with_data(data=struct.pack(f"{len(words)}I", *words), usage=wgpu.BufferUsage.UNIFORM)
        entries.append({"binding": len(layout), "resource": {"buffer": gpu, "offset": 0, "size": 4 * len(words)}})
        layout.append({"binding": len(layout), "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": "uniform"}})
    group_layout = device.create_bind_group_layout(entries=layout)
    pipeline = device.create_compute_pipeline(
        layout=device.create_pipeline_layout(bind_group_layouts=[group_layout]),
        compute={"module": module, "entry_point": "main"},
    )
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, device.create_bind_group(layout=group_layout, entries=entries))
    work.dispatch_workgroups(*job["groups"])
    work.end()
    device.queue.submit([encoder.finish()])
    for path, gpu in written:
        data = device.queue.read_buffer(gpu)
        with open(path, "wb") as file:
            file.write(data)


def main():
    adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] == "Vulkan"]
    if not adapters:
        sys.exit("wgpu finds no Vulkan device")
    features = [f for f in ("shader-f16", "subgroup") if f in adapters[0].features]
    device = adapters[0].request_device_sync(required_features=features)
    failed = 0
    for job in json.load(open(sys.argv[1])):
        try:
            run(device, job)
        except Exception as error:  # whatever the driver or the compiler says, the other jobs go on
            failed = 1
            print(f"{job['wgsl']}: {error}", file=sys.stderr)
    sys.exit(failed)


main()
