// SPDX-License-Identifier: MIT
// Runs graphs on devices and compares every output and update with the f64 reference evaluator.
#pragma once

#include "darner/graph/eval.h"
#include "darner/runtime/session.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace darner::test {

struct DeviceCase {
    std::string name;    // for messages
    std::string device;  // as --device
    std::function<Caps(Caps)> restrict_caps = {};
    PlanOptions plan = {};
};

// The interpreter with GPU-like caps, subgroups of 8, CPU-like caps, WebGPU's defaults and without fusion or aliasing; and
// Vulkan, which fails where there is no driver: a device that is not there proves nothing.
std::vector<DeviceCase> device_cases();
// Only the first few: for slow graphs.
std::vector<DeviceCase> main_device_cases();
// The same device with bindings of at most so many bytes.
DeviceCase with_bindings(DeviceCase on, uint64_t bytes);

// Leaves of a graph filled at random: normal floats times `magnitude`, integers in [0, int_limit), bools.
NamedTensors random_leaves(const Graph& graph, uint64_t seed, double magnitude = 1, int64_t int_limit = 3);

Array array_of(const Tensor& tensor);
Result<Tensor> tensor_of(const Array& array);

struct Tolerance {
    double relative = 1e-5;                      // of each value
    double of_largest = 1e-6;                    // of the tensor's largest magnitude
    std::map<std::string, double> largest = {};  // by name: a magnitude that cancels in the result, where larger than it
};

// One line on the first element that is off, "" when there is none. Integers and bools must be equal.
std::string difference(const std::string& name, const Tensor& got, const Tensor& want, const Tolerance& tolerance = {});

// "" when everything agrees.
std::string compare(const Graph& graph, const NamedTensors& leaves, const DeviceCase& on, const Tolerance& tolerance = {});

// Parses one graph and compares it on all device cases; the texts of all differences.
std::string compare_text(std::string_view text, uint64_t seed = 1, double magnitude = 1, int64_t int_limit = 3);

}  // namespace darner::test
