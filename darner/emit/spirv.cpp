// SPDX-License-Identifier: MIT
#include "darner/emit/spirv.h"

#include "darner/emit/limits.h"
#include "darner/emit/spirv_function.h"

namespace darner {

Result<std::vector<uint32_t>> emit_spirv(const kir::Kernel& kernel, const Caps& caps, const SpirvOptions& options) {
    TRY(check_limits(kernel, caps));
    return spirv::FunctionEmitter(kernel, caps, options).emit();
}

}  // namespace darner
