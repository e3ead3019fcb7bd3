// SPDX-License-Identifier: MIT
// Small graphs that each press on one part of grouping, lowering, memory or order. Their plans are compared with the reference
// (plan_test.cpp), their shaders are validated (shaders_test.cpp).
#pragma once

#include <cstdint>

namespace darner::test {

struct PlanCase {
    const char* name;
    const char* text;
    int64_t int_limit = 3;  // integer leaves are below it
};

inline constexpr PlanCase plan_cases[] = {
    {"map_broadcast", R"(graph g {
        x = input f32[5,7]
        b = input f32[7]
        s = input f32[]
        output y = add(mul(x, s), b)
        output z = tanh(sub(x, b))
    })"},
    {"views", R"(graph g {
        x = input f32[4,6,5]
        t = transpose(x, perm=[2,0,1])
        output a = mul(t, 2.0)
        output b = reshape(t, shape=[10,12])
        output c = slice(x, start=[1,0,1], stop=[4,6,5], step=[2,1,3])
        output d = add(reshape(x, shape=[120]), reshape(transpose(x, perm=[1,0,2]), shape=[120]))
    })"},
    {"outputs_that_are_leaves", R"(graph g {
        x = input f32[3]
        p = param f32[4]
        output a = p
        output b = x
        output c = x
        output d = reshape(x, shape=[3,1])
        update p = mul(p, 2.0)
    })"},
    {"materialized_leaves", R"(graph g {
        x = input f32[3,2]
        p = param f32[6]
        c = materialize(constant f32[6] {2.0})
        d = materialize(reshape(c, shape=[3,2]))
        output y = mul(x, d)
        output s = sum(mul(c, p))
        output z = add(materialize(reshape(x, shape=[6])), materialize(p))
        output m = d
        output h = mul(materialize(sum(cast(x, dtype=f16))), 2.0)
        update p = materialize(c)
    })"},
    {"softmax", R"(graph g {
        x = input f32[9,17]
        output y = softmax(x)
        output z = log_softmax(x, axis=0)
    })"},
    {"softmax_wide", R"(graph g {
        x = input f32[3,1500]
        output y = softmax(x)
    })"},
    {"reductions", R"(graph g {
        x = input f32[6,5,4]
        output a = sum(x)
        output b = sum(x, axes=[1])
        output c = mean(x, axes=[0,2])
        output d = max(x, axes=[-1], keep=true)
        output e = min(x, axes=[0])
        output f = argmax(x, axis=1)
        output h = argmax(x, axis=2)
    })"},
    {"column_sum_of_fused", R"(graph g {
        h = input f32[33,20]
        dh = input f32[33,20]
        dz = select(gt(h, 0.0), dh, 0.0)
        output dz
        output db = sum(dz, axes=[0])
    })"},
    {"norm_with_columns", R"(graph g {
        x = input f32[19,12]
        w = input f32[12]
        dy = input f32[19,12]
        r = rsqrt(add(mean(mul(x, x), axes=[1], keep=true), 1e-5))
        y = mul(mul(x, r), w)
        output y
        output dw = sum(mul(dy, mul(x, r)), axes=[0])
        output loss = mean(mul(y, dy))
    })"},
    {"dots", R"(graph g {
        a = input f32[3,17,9]
        b = input f32[3,9,21]
        c = input f32[21,9]
        v = input f32[9]
        output p = dot(a, b, batch=[[0],[0]], contract=[[2],[1]])
        output q = dot(c, a, contract=[[1],[2]])
        output r = matmul(c, v)
        output s = relu(add(dot(c, c, contract=[[1],[1]]), 1.0))
        output t = dot(transpose(a, perm=[0,2,1]), b, batch=[[0],[0]], contract=[[1],[1]])
    })"},
    {"dot_of_nothing", R"(graph g {
        a = input f32[3,0]
        b = input f32[0,4]
        output y = add(matmul(a, b), 1.0)
        output s = sum(a, axes=[1])
    })"},
    {"integer_dot", R"(graph g {
        a = input i32[5,6]
        b = input i32[6,7]
        output y = matmul(a, b)
    })"},
    {"epilogue", R"(graph g {
        x = input f32[65,33]
        w = input f32[10,33]
        b = input f32[10]
        r = input f32[65,10]
        output y = add(relu(linear(x, w, b)), r)
    })"},
    {"conv", R"(graph g {
        x = input f32[2,5,9,8]
        w = input f32[6,5,3,3]
        b = input f32[6]
        r = input f32[2,6,9,8]
        output y = relu(add(conv(x, w, b, padding=[1,1,1,1]), r))
        output s = conv(x, w, strides=[2,3], padding=[1,0,2,1])
        output d = conv(x, w, dilation=[2,1], padding=[3,2,-1,0])
        output p = conv(tanh(x), reshape(slice(w, start=[0,0,1,1], stop=[6,5,2,2]), shape=[6,5,1,1]))
    })"},
    {"conv_groups", R"(graph g {
        x = input f32[3,6,7,10]
        w = input f32[4,3,3,2]
        k = input f32[6,1,3,3]
        v = input f32[12,1,2,3]
        output y = conv(x, w, groups=2, strides=[2,1])
        output z = mul(conv(x, k, groups=6, padding=[1,1,1,1]), 2)
        output m = conv(x, v, groups=6, strides=[1,2], padding=[0,1,1,0])
    })"},
    {"conv_ranks", R"(graph g {
        x = input f32[2,3,40]
        w = input f32[4,3,5]
        v = input f32[1,2,4,5,6]
        k = input f32[3,2,2,3,3]
        output y = conv(x, w, padding=[2,2])
        output z = conv(v, k, strides=[1,2,2], padding=[1,0,1,1,0,1])
        output n = conv(slice(x, start=[0,0,0], stop=[2,3,0]), w, padding=[2,3])
    })"},
    {"conv_transposed", R"(graph g {
        x = input f32[2,4,5,6]
        w = input f32[4,3,3,3]
        k = input f32[4,2,2,2]
        b = input f32[3]
        output y = conv_transpose(x, w, b, strides=[2,2], padding=[1,1,1,1], output_padding=[1,0])
        output z = conv_transpose(x, k, strides=[2,2])
        output u = conv_transpose(x, k, strides=[3,2], dilation=[2,3], groups=2)
    })"},
    {"conv_weight_gradient", R"(graph g {
        x = input f32[5,3,12,12]
        dy = input f32[5,4,12,12]
        xt = transpose(x, perm=[1,0,2,3])
        output dw = transpose(conv(xt, transpose(dy, perm=[1,0,2,3]), padding=[1,1,1,1]), perm=[1,0,2,3])
    })"},
    {"packed_conv", R"(graph g {
        x = input f16[2,3,6,7]
        w = input f16[5,3,3,3]
        b = input f16[5]
        output y = conv(x, w, b, padding=[1,0,0,1])
    })"},
    {"gather_scatter", R"(graph g {
        table = input f32[11,5]
        i = input i32[4,3]
        u = input f32[4,3,5]
        output a = gather(table, i)
        output b = scatter_add(i, u, size=11, axis=0)
        output c = matmul(gather(table, reshape(i, shape=[12])), transpose(table, perm=[1,0]))
    })",
     11},
    {"indices_out_of_range", R"(graph g {
        table = input f32[4,2]
        i = input i32[6]
        u = input f32[6,2]
        output a = gather(table, sub(i, 3))
        output b = scatter_add(sub(i, 3), u, size=4, axis=0)
    })",
     12},
    {"concat_pad", R"(graph g {
        x = input f32[2,3]
        y = input f32[2,4]
        c = concat(x, y, axis=1)
        output c
        output d = pad(x, low=[1,0], high=[0,2], interior=[1,0], value=3.0)
        output e = softmax(concat(x, y, axis=1))
    })"},
    {"packed_dtypes", R"(graph g {
        a = input u8[7]
        b = input i8[7]
        c = input f16[7]
        d = input bf16[7]
        e = input bool[7]
        output w = add(a, cast(b, dtype=u8))
        output x = sub(b, cast(a, dtype=i8))
        output y = mul(c, cast(d, dtype=f16))
        output z = cast(add(cast(c, dtype=f32), 1.0), dtype=bf16)
        output t = logical_or(e, gt(d, cast(c, dtype=bf16)))
    })",
     200},
    {"packed_results_of_rows_and_dots", R"(graph g {
        a = input f16[5,6]
        b = input f16[6,3]
        m = input bool[5,6]
        output s = sum(a, axes=[1])
        output d = matmul(a, b)
        output k = argmax(a, axis=1)
        output above = gt(a, max(a, axes=[1], keep=true))
        output n = sum(cast(m, dtype=i32), axes=[0])
    })"},
    {"integers", R"(graph g {
        a = input i32[9]
        b = input i32[9]
        c = input u32[9]
        output d = div(sub(a, 3), sub(b, 1))
        output r = rem(sub(a, 4), sub(b, 1))
        output m = mul(mul(c, 77777), 99999)
        output s = max(a)
        output t = sum(c)
    })",
     7},
    {"updates_in_place_and_swapped", R"(graph g {
        p = param f32[5]
        q = param f32[5]
        n = param u32[]
        x = input f32[5]
        output old = mul(p, 3.0)
        update p = q
        update q = add(p, x)
        update n = add(n, 1)
    })"},
    {"update_read_by_others", R"(graph g {
        w = param f32[8,8]
        x = input f32[4,8]
        y = matmul(x, w)
        new = sub(w, mul(matmul(transpose(x, perm=[1,0]), y), 0.1))
        output y
        output norm = sum(mul(new, new))
        update w = new
    })"},
    {"shifted_updates", R"(graph g {
        a0 = param f32[16]
        a1 = param f32[16]
        a2 = param f32[16]
        update a1 = mul(a0, 0.5)
        update a2 = mul(a1, 0.5)
        update a0 = mul(a0, 0.25)
    })"},
    {"momentum_window", R"(graph g {
        a = param f32[3,5]
        b = param f32[7]
        c = param f32[2,9]
        ma = param f32[3,5] trainable=false role=moment
        mb = param f32[7] trainable=false role=moment
        mc = param f32[2,9] trainable=false role=moment
        x = input f32[3,5]
        ga = materialize(mul(x, sum(a)))
        gb = materialize(mul(b, sum(x)))
        gc = materialize(mul(c, mean(c)))
        na = add(mul(ma, 0.9), ga)
        nb = add(mul(mb, 0.9), gb)
        nc = add(mul(mc, 0.9), gc)
        update ma = na
        update mb = nb
        update mc = nc
        update a = sub(a, mul(na, 0.1))
        update b = sub(b, mul(nb, 0.1))
        update c = sub(c, mul(nc, 0.1))
    })"},
    {"constants", R"(graph g {
        c = constant f32[2,3] {1, 2, 3, 4, 5, 6}
        x = input f32[2,3]
        output y = mul(c, x)
        output k = constant i32[4] {7}
        output z = c
    })"},
    {"empty", R"(graph g {
        x = input f32[0,3]
        output y = mul(x, 2.0)
        output s = sum(x)
    })"},
    {"scalars", R"(graph g {
        a = input f32[]
        b = input f32[1]
        output y = add(a, 1.0)
        output z = exp(reshape(b, shape=[]))
    })"},
    {"random", R"(graph g {
        seed = input u32[2]
        n = input u32[]
        output b = random_bits(seed, n, shape=[3,5], stream=2)
        output u = uniform(seed, n, shape=[7], stream=1)
        output z = mul(normal(seed, n, shape=[3,3], stream=0), 2.0)
    })",
     1000000},
    {"cross_entropy", R"(graph g {
        x = input f32[13,10]
        y = input i32[13]
        output l = cross_entropy(x, y)
        output n = cross_entropy(x, y, reduction=none)
    })",
     10},
    {"diamond_that_must_not_cycle", R"(graph g {
        x = input f32[6,6]
        a = exp(x)
        s = sum(a, axes=[0])
        m = matmul(a, reshape(s, shape=[6,1]))
        output y = add(a, m)
    })"},
    {"updates_that_count_positions", R"(graph g {
        p = param f32[50]
        q = param f32[50]
        i = iota(shape=[50], dtype=f32, axis=0)
        update p = add(p, i)
        update q = add(q, i)
    })"},
    {"one_gradient_in_two_windows", R"(graph g {
        p1 = param f32[4]
        p2 = param f32[4]
        q2 = param f32[4] trainable=false role=moment
        q3 = param f32[4] trainable=false role=moment
        x = input f32[4]
        g1 = materialize(mul(x, sum(p1)))
        g2 = materialize(mul(x, sum(p2)))
        g3 = materialize(mul(x, sum(q3)))
        update p1 = sub(p1, g1)
        update p2 = sub(p2, g2)
        update q2 = sub(q2, g2)
        update q3 = sub(q3, g3)
    })"},
    {"one_gradient_for_two_params", R"(graph g {
        p = param f32[7]
        q = param f32[7]
        x = input f32[5,3]
        y = input f32[5,7]
        g = materialize(sum(dot(x, y, contract=[[0],[0]]), axes=[0]))
        update p = sub(p, g)
        update q = sub(q, g)
    })"},
    {"updates_by_different_scalars", R"(graph g {
        s = input f32[]
        t = input f32[]
        a = param f32[33]
        b = param f32[33]
        c = param f32[33]
        update a = mul(a, s)
        update b = mul(b, t)
        update c = mul(c, s)
    })"},
    {"read_only_for_no_elements", R"(graph g {
        x = input f32[4,7]
        k = input i32[4]
        s = scatter_add(k, x, size=3)
        output y = pad(slice(s, start=[0,0], stop=[0,7]), low=[1,0], high=[0,0])
    })"},
    {"last_read_in_another_order", R"(graph g {
        x = input f32[16,16]
        a = materialize(exp(x))
        b = materialize(tanh(add(transpose(a, perm=[1,0]), 0.25)))
        output y = sum(b, axes=[1])
    })"},
    {"windows_that_would_wait_in_a_circle", R"(graph g {
        p1 = param f32[4]
        p2 = param f32[4]
        c1 = param f32[4] trainable=false role=moment
        c2 = param f32[4] trainable=false role=moment
        update p1 = add(p1, c1)
        update p2 = add(p2, c2)
        update c1 = mul(c1, p2)
    })"},
    {"updates_that_do_not_keep_zeros", R"(graph g {
        p = param f32[5]
        q = param f32[6]
        update p = add(p, 1)
        update q = add(q, 1)
    })"},
    {"many_reductions_in_a_row", R"(graph g {
        x0 = input f32[2,3000]
        x1 = sub(x0, mul(sum(x0, axes=[1], keep=true), 1e-4))
        x2 = sub(x1, mul(sum(x1, axes=[1], keep=true), 1e-4))
        x3 = sub(x2, mul(max(x2, axes=[1], keep=true), 1e-4))
        x4 = sub(x3, mul(sum(x3, axes=[1], keep=true), 1e-4))
        x5 = sub(x4, mul(min(x4, axes=[1], keep=true), 1e-4))
        x6 = sub(x5, mul(sum(x5, axes=[1], keep=true), 1e-4))
        x7 = sub(x6, mul(sum(x6, axes=[1], keep=true), 1e-4))
        x8 = sub(x7, mul(sum(x7, axes=[1], keep=true), 1e-4))
        output x8
        output k = argmax(x8, axis=1)
    })"},
    {"slices_of_what_is_also_whole", R"(graph g {
        x = input f32[4]
        m = input f32[6,5]
        y = tanh(x)
        t = exp(m)
        output y
        output s = exp(slice(y, start=[0], stop=[2]))
        output n = slice(y, start=[0], stop=[0])
        output t
        output r = softmax(slice(t, start=[0,0], stop=[3,5]))
        output q = sum(slice(t, start=[0,0], stop=[6,2]), axes=[1])
        output k = max(reshape(slice(t, start=[0,0], stop=[1,5]), shape=[5]))
    })"},
    {"input_and_output_of_one_name", R"(graph g {
        x = input f32[3]
        y = input f32[2]
        output x = add(x, 5)
        output y = sum(x)
    })"},
    {"concat_wider_than_a_kernel", R"(graph g {
        x0 = input f32[1]
        x1 = input f32[2]
        x2 = input f32[3]
        x3 = input f32[1]
        x4 = input f32[2]
        x5 = input f32[3]
        x6 = input f32[1]
        x7 = input f32[2]
        x8 = input f32[3]
        x9 = input f32[1]
        x10 = input f32[2]
        x11 = input f32[3]
        x12 = input f32[1]
        x13 = input f32[2]
        x14 = input f32[3]
        x15 = input f32[1]
        x16 = input f32[2]
        x17 = input f32[3]
        x18 = input f32[1]
        x19 = input f32[2]
        x20 = input f32[3]
        x21 = input f32[1]
        x22 = input f32[2]
        x23 = input f32[3]
        x24 = input f32[1]
        x25 = input f32[2]
        x26 = input f32[3]
        x27 = input f32[1]
        x28 = input f32[2]
        x29 = input f32[3]
        x30 = input f32[1]
        x31 = input f32[2]
        x32 = input f32[3]
        x33 = input f32[1]
        x34 = input f32[2]
        x35 = input f32[3]
        x36 = input f32[1]
        x37 = input f32[2]
        x38 = input f32[3]
        x39 = input f32[1]
        x40 = input f32[2]
        c = concat(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29, x30, x31, x32, x33, x34, x35, x36, x37, x38, x39, x40, axis=0)
        output y = add(c, mul(c, 2))
        output z = sum(concat(c, add(x0, x3), axis=0))
    })"},
    {"attention", R"(graph g {
        q = input f32[1,4,9,3]
        k = input f32[1,2,17,3]
        v = input f32[1,2,17,5]
        dy = input f32[1,4,9,5]
        m = input bool[9,17]
        output y = attention(q, k, v, m, causal=true)
        output w = attention(q, k, v, soft_cap=3, window=4)
        n = attention_rows(q, k, v, scale=0.5, causal=true)
        r = concat(n, sum(mul(dy, attention_forward(q, k, v, scale=0.5, causal=true)), axes=[3], keep=true), axis=3)
        output dq = attention_dq(q, k, v, dy=dy, rows=r, scale=0.5, causal=true)
        output dk = attention_dk(q, k, v, dy=dy, rows=r, scale=0.5, causal=true)
        output dv = attention_dv(q, k, v, dy=dy, rows=r, scale=0.5, causal=true)
    })"},
    {"attention_of_views", R"(graph g {
        x = input f32[2,6,24]
        at = input i32[2]
        h = rotary(transpose(reshape(x, shape=[2,6,3,8]), perm=[0,2,1,3]), at, layout=interleaved)
        y = attention(h, slice(h, start=[0,0,0,0], stop=[2,1,6,8]), slice(h, start=[0,2,0,0], stop=[2,3,6,7]), position=at, causal=true)
        output z = reshape(transpose(y, perm=[0,2,1,3]), shape=[2,6,21])
    })"},
    {"loops_beyond_65535", R"(graph g {
        a = input f32[1,70001]
        b = input f32[70001,1]
        i = input i32[70001]
        ones = constant f32[70001] {1}
        output d = dot(a, b, contract=[[1],[0]])
        output s = scatter_add(i, ones, size=3, axis=0)
    })"},
};

}  // namespace darner::test
