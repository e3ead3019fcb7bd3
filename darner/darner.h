// SPDX-License-Identifier: MIT
// All that a program needs: graphs and ops, gradients, layers and optimizers, compile() and Session, host arrays and files.
// Programs that want less compile time include the parts.
#pragma once

#include "darner/graph/builder.h"
#include "darner/graph/eval.h"
#include "darner/graph/text.h"
#include "darner/io/array.h"
#include "darner/io/npy.h"
#include "darner/io/safetensors.h"
#include "darner/nn/layers.h"
#include "darner/nn/norms.h"
#include "darner/nn/optimizers.h"
#include "darner/nn/training.h"
#include "darner/nn/transformer.h"
#include "darner/ops/ops.h"
#include "darner/runtime/devices.h"
#include "darner/runtime/session.h"
#include "darner/transform/transform.h"
#include "darner/transform/vjp.h"
