// SPDX-License-Identifier: MIT
// The README's example: a classifier, its training step as one graph, and a hundred steps on made-up images.
#include <darner/darner.h>

#include <cstdio>
namespace dn = darner;

int fail(const dn::Error& error) { return std::fprintf(stderr, "%s\n", error.text().c_str()), 1; }

int main() {
    dn::Builder b;
    dn::Value x = b.input("x", dn::f32({64, 784})), y = b.input("y", dn::i32({64}));
    dn::Value h = dn::relu(dn::linear(x, 128, {.name = "fc1"}));
    dn::Value loss = dn::cross_entropy(dn::linear(h, 10, {.name = "fc2"}), y);
    dn::Result<dn::Module> module = dn::training_step(loss, dn::adamw({.learning_rate = 1e-3f}));
    if (!module) return fail(module.error());
    dn::Result<dn::Session> session = dn::compile(*module);  // on the best device present
    if (!session) return fail(session.error());

    std::vector<float> images(64 * 784);  // image i shows stripe i % 10
    std::vector<int32_t> labels(64);
    for (int i = 0; i < 64 * 784; ++i) images[i] = i % 784 % 10 == i / 784 % 10 ? 1.0f : 0.0f;
    for (int i = 0; i < 64; ++i) labels[i] = i % 10;
    const dn::NamedArrays batch{{"x", dn::make_array<float>({64, 784}, images)}, {"y", dn::make_array<int32_t>({64}, labels)}};

    for (int step = 0; step <= 100; ++step) {
        dn::Result<dn::NamedArrays> out = session->run("step", batch);
        if (!out) return fail(out.error());
        if (step % 20 == 0) std::printf("step %3d  loss %.4f\n", step, dn::values_of<float>(out->at("loss"))[0]);
    }
    return 0;
}
