// SPDX-License-Identifier: MIT
// Optimizers against PyTorch: three steps on one param in f64 with the gradients below, the values that torch.optim gives.
#include "darner/nn/optimizers.h"

#include "darner/nn/test_support.h"
#include "darner/nn/training.h"
#include "darner/ops/ops.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace darner::testing {
namespace {

using ::testing::HasSubstr;

constexpr double start[3] = {1.0, -2.0, 0.5};
constexpr double gradients_of_steps[3][3] = {{0.5, -0.25, 1e-4}, {-0.125, 2.0, 0.0}, {0.75, -1.0, -3e-3}};

struct Reference {
    const char* name;
    Optimizer optimizer;
    double values[3][3];
};

std::vector<Reference> references() {
    return {
        {"sgd", sgd({.learning_rate = 0.1}), {{0.95, -1.975, 0.49999}, {0.9625, -2.175, 0.49999}, {0.8875, -2.075, 0.50029}}},
        {"sgd_decay",
         sgd({.learning_rate = 0.1, .weight_decay = 0.01}),
         {{0.949, -1.973, 0.49949}, {0.960551, -2.171027, 0.49899051}, {0.884590449, -2.068855973, 0.49879151949}}},
        {"sgd_momentum",
         sgd({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
         {{0.949, -1.973, 0.49949}, {0.914651, -2.146727, 0.49853151}, {0.807822249, -2.200934573, 0.49747033749}}},
        {"sgd_nesterov",
         sgd({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}),
         {{0.905, -1.9525, 0.499981}, {0.88825, -2.31225, 0.4999729}, {0.719425, -2.266025, 0.50053561}}},
        {"adam",
         adam(),
         {{0.99900000002, -1.99900000004, 0.499000099990001},
          {0.9985305318616771, -1.9996553266516015, 0.4983301365067164},
          {0.9977984874291195, -1.9998250363045922, 0.4989513542184991}}},
        {"adam_decay",
         adam({.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1}),
         {{0.9900000166666388, -1.9900000222221728, 0.49000019959681446},
          {0.9840457465612069, -1.9960853127920066, 0.48001279232296185},
          {0.975785438863256, -1.9959351688103022, 0.4700997695466437}}},
        {"adamw",
         adamw(),
         {{0.99899000002, -1.99898000004, 0.498995099990001},
          {0.998510541961677, -1.9996153368516012, 0.49832014655571655},
          {0.9977685124236998, -1.9997650503512234, 0.4989363810660337}}},
        {"adamw_decay",
         adamw({.learning_rate = 0.05, .weight_decay = 0.2}),
         {{0.940000001, -1.930000002, 0.44500499950005},
          {0.9071265930738529, -1.9434663325600812, 0.4070567753408209},
          {0.8614531055152362, -1.932517151884014, 0.4340470931765477}}},
    };
}

// loss = sum(p * g) has the gradient g.
Module module_of(const Optimizer& optimizer, DType dtype) {
    Builder b;
    const Type type{dtype, {3}};
    const Value p = b.param("p", type, {.init = b.constant(type, Tensor::of(dtype, {3}, {start, start + 3}))});
    return ok(training_step(sum(p * b.input("g", type)), optimizer));
}

TEST(Optimizers, AgreeWithPyTorch) {
    for (const Reference& reference : references()) {
        for (const DType dtype : {DType::f64, DType::f32}) {
            SCOPED_TRACE(reference.name);
            ReferenceSession session(module_of(reference.optimizer, dtype));
            for (int step = 0; step < 3; ++step) {
                const double* g = gradients_of_steps[step];
                session.run("step", {{"g", Tensor::of(dtype, {3}, {g, g + 3})}});
                for (int i = 0; i < 3; ++i)
                    EXPECT_NEAR(session.read("p").at(i), reference.values[step][i], dtype == DType::f64 ? 1e-10 : 1e-6)
                        << "step " << step << " element " << i;
            }
            EXPECT_EQ(session.read("step").at(0), 3);
        }
    }
}

TEST(Optimizers, MomentsAreStateOfTheirOwnRole) {
    const Module module = module_of(adam(), DType::f32);
    const Graph& step = *module.find("step");
    for (const char* name : {"adam.m.p", "adam.v.p"}) {
        ASSERT_NE(step.find_param(name), nullptr);
        EXPECT_EQ(step.find_param(name)->role, Role::moment);
        EXPECT_FALSE(step.find_param(name)->trainable);
    }
}

TEST(Optimizers, NarrowParamsAreUpdatedInF32) {
    const Module module = module_of(adam(), DType::f16);
    const Graph& step = *module.find("step");
    EXPECT_EQ(step.type(step.find_param("p")->node), f16({3}));
    EXPECT_EQ(step.type(step.find_param("adam.m.p")->node), f32({3}));
}

TEST(Optimizers, BiasCorrectionKeepsItsDigits) {
    Builder b;
    const Value t = b.input("t", f64());
    for (const double beta : {0.0, 0.5, 0.9, 0.999, 0.9999999}) b.output(std::to_string(beta), one_minus_power(beta, t));
    const Graph graph = ok(b.finish());
    for (const double step : {1.0, 2.0, 10.0, 693.0, 1000.0, 1e6}) {
        const EvalResult result = ok(eval(graph, {{"t", Tensor::scalar(DType::f64, step)}}));
        for (const double beta : {0.5, 0.9, 0.999, 0.9999999}) {
            const double want = -std::expm1(step * std::log(beta));
            EXPECT_NEAR(result.outputs.at(std::to_string(beta)).at(0), want, 1e-12 * want) << beta << "^" << step;
        }
        EXPECT_EQ(result.outputs.at(std::to_string(0.0)).at(0), 1);
    }
}

// The formulas with a rate of each step's own, on the host.
TEST(Optimizers, SchedulesScaleTheRateOfEachStep) {
    const Schedule schedule = [](Value step) { return reciprocal(step + 1.0); };
    ReferenceSession with_sgd(module_of(sgd({.learning_rate = 0.1, .momentum = 0.9, .schedule = schedule}), DType::f64));
    ReferenceSession with_adamw(module_of(adamw({.learning_rate = 0.05, .weight_decay = 0.2, .schedule = schedule}), DType::f64));
    double p[3], q[3], momentum[3] = {}, m[3] = {}, v[3] = {};
    std::copy_n(start, 3, p), std::copy_n(start, 3, q);
    for (int step = 0; step < 3; ++step) {
        const double* g = gradients_of_steps[step];
        for (ReferenceSession* session : {&with_sgd, &with_adamw})
            session->run("step", {{"g", Tensor::of(DType::f64, {3}, {g, g + 3})}});
        const double t = step + 1, rate = 0.05 / t;
        for (int i = 0; i < 3; ++i) {
            momentum[i] = 0.9 * momentum[i] + g[i];
            p[i] -= 0.1 / t * momentum[i];
            m[i] = 0.9 * m[i] + 0.1 * g[i], v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
            q[i] -= rate * 0.2 * q[i];
            q[i] -= rate * m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
            EXPECT_NEAR(with_sgd.read("p").at(i), p[i], 1e-12) << step << " " << i;
            EXPECT_NEAR(with_adamw.read("p").at(i), q[i], 1e-12) << step << " " << i;
        }
    }
}

TEST(Optimizers, WarmupAndDecay) {
    Builder b;
    b.output("factor", warmup_and_decay(100, 1000)(b.input("step", f64())));
    const Graph graph = ok(b.finish());
    const auto at = [&](double step) {
        return ok(eval(graph, {{"step", Tensor::scalar(DType::f64, step)}})).outputs.at("factor").at(0);
    };
    EXPECT_NEAR(at(0), 0.01, 1e-12);
    EXPECT_NEAR(at(49), 0.5, 1e-12);
    for (double flat : {99.0, 500.0, 999.0}) EXPECT_NEAR(at(flat), 1, 1e-12);
    EXPECT_NEAR(at(3999), 0.5, 1e-12);
}

TEST(Optimizers, WrongOptions) {
    const auto error_of = [](const Optimizer& optimizer) {
        Builder b;
        const Value p = b.param("p", f32());
        return training_step(p * p, optimizer).error().text();
    };
    EXPECT_THAT(error_of(sgd({.learning_rate = -1})), HasSubstr("[sgd] learning_rate is -1"));
    EXPECT_THAT(error_of(sgd({.nesterov = true})), HasSubstr("nesterov needs a momentum above 0"));
    EXPECT_THAT(error_of(adam({.beta1 = 1, .eps = NAN})), HasSubstr("[adam] beta1 is 1"));
    EXPECT_THAT(error_of(adam({.beta1 = 1, .eps = NAN})), HasSubstr("eps is nan"));
    EXPECT_THAT(error_of(adamw({.weight_decay = -0.1})), HasSubstr("[adamw] weight_decay is -0.1"));
    EXPECT_THAT(optimizer_named("adamm", 0.1).error().hint, HasSubstr("adam"));
    for (double rate : {0.0, -1.0, 1e-39, 1e39, std::nan("")})
        EXPECT_THAT(optimizer_named("adam", rate).error().text(), HasSubstr("the learning rate is"));
}

}  // namespace
}  // namespace darner::testing
