// SPDX-License-Identifier: MIT
// compile() and Session: from a Module to something that runs. A Session owns a device's Executable: all named graphs of the
// module over one State. Errors are values; a device-side failure comes out of wait(), read() or run().
//
// A training loop that never waits: `x` and `y` are per-step inputs, `loss` is a per-step output.
//
//   for (uint32_t step = 0; step < steps; ++step) {
//       TRY(session.run_async("step", {{"x", images(step)}, {"y", labels(step)}}));  // waits only while the ring is full
//       if (step < 3) continue;
//       TRY(const Array loss, session.read("loss", 3));  // of the run three before this one, which has long finished
//       show(step - 3, loss);
//   }
//   TRY(session.wait());
#pragma once

#include "darner/device/device.h"
#include "darner/graph/graph.h"
#include "darner/io/array.h"
#include "darner/plan/plan.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace darner {

using NamedArrays = std::map<std::string, Array, std::less<>>;

struct CompileOptions {
    std::string device;            // as --device: "" is the best present, "vulkan", "vulkan:1", "interp"
    std::shared_ptr<Device> open;  // an open device instead of `device`
    PlanOptions plan;
    bool run_init = true;  // run the module's `init` graph, if it has one, right after loading
    uint64_t seed = 0;     // written to the state param `seed` (two words) before init
    // What Caps to plan for, from what the device has: tests cut limits down here.
    std::function<Caps(Caps)> restrict_caps;
};

class Session {
public:
    Session(std::shared_ptr<Device> device, std::shared_ptr<const Program> program, std::unique_ptr<Executable> executable);
    Session(Session&&) = default;
    Session& operator=(Session&&) = default;

    const Program& program() const { return *program_; }
    const DeviceInfo& device() const { return device_->info(); }
    const PlanReport* report(std::string_view graph) const;

    // State (params, moments, counters, data) and inputs by name. Types must be equal; the error says both. A per-step input is
    // written for the next run alone, any other stays until it is written again.
    Result<void> write(std::string_view name, const Array& value);
    // State, or an output of the last run; waits. Of a per-step output: of the run that is `ago` before the last queued one;
    // waits for that run alone.
    Result<Array> read(std::string_view name, uint32_t ago = 0);
    // Names: of what a graph wants and gives, and of all state.
    std::vector<std::string> inputs(std::string_view graph) const;
    std::vector<std::string> outputs(std::string_view graph) const;
    std::vector<std::string> state() const;

    // Writes the inputs, runs the graph once, waits and reads its outputs. Wants every input of the graph and takes no other
    // name; nothing is written where one of them does not fit.
    Result<NamedArrays> run(std::string_view graph, const NamedArrays& inputs = {});
    // Queues one run behind all that was queued before and returns at once. The inputs are those of this run: per-step ones go
    // to the ring, others take effect behind the earlier runs and stay. What is not given must have been written before.
    Result<void> run_async(std::string_view graph, const NamedArrays& inputs = {});
    // A per-step input of the run that is `ahead` behind the next one, which is 0; below ring_slots(). Waits only while the run
    // that used the slot before has not finished.
    Result<void> write_ahead(std::string_view graph, std::string_view input, const Array& value, uint32_t ahead);
    // How many runs can have per-step inputs and outputs of their own at a time.
    Result<uint32_t> ring_slots(std::string_view graph) const;
    // How many runs of the graph are known to have finished, counted from compile(). Does not wait.
    Result<uint64_t> finished(std::string_view graph);
    // Queues `steps` runs and returns at once; inputs keep what was written last, per-step ones are written ahead.
    Result<void> submit(std::string_view graph, uint32_t steps);
    Result<void> wait();
    Result<std::vector<DispatchTime>> profile(std::string_view graph);

    // Safetensors of all state but role `data`. `load` goes by name: strict wants exactly these names, else it takes those that
    // are there and leaves the rest. Types must be equal in both cases; the error lists all that differs, and nothing is
    // written then.
    Result<void> save(const std::string& path);
    Result<void> load(const std::string& path, bool strict = true);

private:
    enum class Side : uint8_t { input, output };
    Result<TensorId> find(std::string_view name, Side preferred) const;
    Result<TensorId> input_of(const Entry& entry, std::string_view name) const;
    Result<void> check_type(TensorId id, const Array& value) const;
    Result<void> write_inputs(const Entry& entry, const NamedArrays& inputs);
    Result<uint32_t> entry(std::string_view graph) const;
    std::shared_ptr<Device> device_;
    std::shared_ptr<const Program> program_;
    std::unique_ptr<Executable> executable_;
    std::string last_graph_;
};

// The pipeline: expand, cleanup, plan, emit, load, init.
Result<Session> compile(const Module& module, const CompileOptions& options = {});

// The same without a device to run on: the Program for given caps (all code kinds emitted that caps.code names).
Result<Program> compile_program(const Module& module, const Caps& caps, const PlanOptions& options = {});

}  // namespace darner
