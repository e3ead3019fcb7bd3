@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

struct Params {
  a: u32,
}
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(64, 1, 1)
fn main(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(local_invocation_id) local_invocation_id: vec3<u32>) {
  let v0 = local_invocation_id.x + (workgroup_id.x * 64u);
  let v1 = f32(params.a);
  if (v0 < 1000u) {
    let v2 = y[v0];
    y[v0] = fma(v1, x[v0], v2);
  }
}
