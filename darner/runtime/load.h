// SPDX-License-Identifier: MIT
// The parts of compile(): from a Module to a Program, and from a Program, planned or read from a .dp file, to a Session.
#pragma once

#include "darner/runtime/session.h"

namespace darner {

// The Program for given caps without machine code: compile_program() less emit_code().
Result<Program> plan_program(const Module& module, const Caps& caps, const PlanOptions& options = {});

// What of a device plans are made for: its Caps, cut down by the options and by DARNER_CAPS.
Result<Caps> caps_to_plan_for(const Device& device, const CompileOptions& options = {});

// Whether a device of these Caps can run the Program, which may have been planned for others: limits, features and, where
// loops end early, the limit on their rounds. All reasons in one error.
Result<void> check_fits(const Program& program, const Caps& caps);

// Machine code of the kind that the caps name, for the kernels that have none or have it for other caps.
Result<void> emit_code(Program& program, const Caps& caps);

// Whether the state has the seed of random numbers, which options give: two words named `seed`.
bool has_seed(const Program& program);

// Loads a Program that fits the device and has its code; writes the seed and runs `init` as the options say.
Result<Session> start_session(std::shared_ptr<Device> device, Program program, const CompileOptions& options);

// For Programs from elsewhere: checks that they fit, emits what is missing, and starts. The options' plan and caps
// do not matter: the Program is planned.
Result<Session> load_program(Program program, const CompileOptions& options = {});

}  // namespace darner
