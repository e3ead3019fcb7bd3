// SPDX-License-Identifier: MIT
// Compiles WGSL files with Dawn: parsing, type and uniformity checks, and a compute pipeline for each. Dawn's null back end serves,
// so no GPU or driver is needed. Usage: node check.mjs FILE.wgsl...   Exits 1 when a file fails, with the messages on stderr.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const { create, globals } = await import(pathToFileURL(join(root, '.cache/wgsl/node_modules/webgpu/index.js')));
Object.assign(globalThis, globals);

async function check(device, file) {
  const module = device.createShaderModule({ code: readFileSync(file, 'utf8'), label: file });
  const errors = (await module.getCompilationInfo()).messages
    .filter((m) => m.type === 'error')
    .map((m) => `${file}:${m.lineNum}:${m.linePos}: ${m.message}`);
  if (errors.length > 0) return errors;
  try {
    await device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'main' } });
    return [];
  } catch (error) {
    return [`${file}: pipeline: ${error.message}`];
  }
}

const files = process.argv.slice(2);
const gpu = create(['backend=null']);
const adapter = await gpu.requestAdapter();
if (!adapter) {
  console.error('Dawn offers no adapter');
  process.exit(2);
}
const limits = {};
for (const name of ['maxStorageBuffersPerShaderStage', 'maxComputeWorkgroupStorageSize', 'maxComputeInvocationsPerWorkgroup'])
  limits[name] = adapter.limits[name];
const device = await adapter.requestDevice({
  requiredFeatures: ['shader-f16', 'subgroups'].filter((f) => adapter.features.has(f)),
  requiredLimits: limits,
});
device.onuncapturederror = () => {};  // each is in the compilation info or the rejected promise
let failed = 0;
for (const file of files) {
  const errors = await check(device, file);
  for (const error of errors) console.error(error);
  failed += errors.length > 0;
}
console.log(`${files.length - failed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
