@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> sums: array<i32>;

var<workgroup> partial: array<f32, 32>;

fn to_i32(x: f32) -> i32 {
  let nan = (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
  let number = select(x, f32(0f), nan);
  let converted = i32(clamp(number, f32(-2147483648f), f32(2147483520f)));
  return select(converted, i32(2147483647i), number >= f32(2147483648f));
}

@compute @workgroup_size(32, 1, 1)
fn main(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(local_invocation_id) local_invocation_id: vec3<u32>) {
  let v0 = workgroup_id.x * 256u;
  var c1: f32 = 0f;
  for (var i2: u32 = 0u; i2 < 8u; i2 += 1u) {
    let v3 = x[local_invocation_id.x + ((i2 * 32u) + v0)];
    c1 = v3.w + (v3.z + (v3.y + (c1 + v3.x)));
  }
  partial[local_invocation_id.x] = c1;
  workgroupBarrier();
  if (local_invocation_id.x == 0u) {
    var c4: f32 = c1;
    for (var i5: u32 = 1u; i5 < 32u; i5 += 1u) {
      let v6 = partial[i5];
      c4 = c4 + v6;
    }
    sums[workgroup_id.x] = to_i32(c4);
  }
}
