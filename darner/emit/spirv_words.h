// SPDX-License-Identifier: MIT
// The numbers of the SPIR-V specification that the emitter uses: opcodes, capabilities, decorations, storage classes and
// GLSL.std.450 instructions. Enumerators keep the specification's spelling, so that a name can be looked up there.
#pragma once

#include <cstdint>

namespace darner::spirv {

inline constexpr uint32_t magic = 0x07230203;
inline constexpr uint32_t version_1_5 = 0x00010500;  // what Vulkan 1.2 takes

enum class Op : uint16_t {
    Undef = 1,
    Name = 5,
    Extension = 10,
    ExtInstImport = 11,
    ExtInst = 12,
    MemoryModel = 14,
    EntryPoint = 15,
    ExecutionMode = 16,
    Capability = 17,
    TypeVoid = 19,
    TypeBool = 20,
    TypeInt = 21,
    TypeFloat = 22,
    TypeVector = 23,
    TypeArray = 28,
    TypeRuntimeArray = 29,
    TypeStruct = 30,
    TypePointer = 32,
    TypeFunction = 33,
    ConstantTrue = 41,
    ConstantFalse = 42,
    Constant = 43,
    ConstantComposite = 44,
    Function = 54,
    FunctionEnd = 56,
    Variable = 59,
    Load = 61,
    Store = 62,
    AccessChain = 65,
    Decorate = 71,
    MemberDecorate = 72,
    CompositeConstruct = 80,
    CompositeExtract = 81,
    ConvertFToU = 109,
    ConvertFToS = 110,
    ConvertSToF = 111,
    ConvertUToF = 112,
    FConvert = 115,
    Bitcast = 124,
    SNegate = 126,
    FNegate = 127,
    IAdd = 128,
    FAdd = 129,
    ISub = 130,
    FSub = 131,
    IMul = 132,
    FMul = 133,
    UDiv = 134,
    SDiv = 135,
    FDiv = 136,
    UMod = 137,
    FRem = 140,
    MatrixTimesScalar = 143,
    UMulExtended = 151,
    LogicalEqual = 164,
    LogicalNotEqual = 165,
    LogicalOr = 166,
    LogicalAnd = 167,
    LogicalNot = 168,
    Select = 169,
    IEqual = 170,
    INotEqual = 171,
    UGreaterThan = 172,
    SGreaterThan = 173,
    UGreaterThanEqual = 174,
    SGreaterThanEqual = 175,
    ULessThan = 176,
    SLessThan = 177,
    ULessThanEqual = 178,
    SLessThanEqual = 179,
    FOrdEqual = 180,
    FUnordNotEqual = 183,
    FOrdLessThan = 184,
    FOrdGreaterThan = 186,
    FOrdLessThanEqual = 188,
    FOrdGreaterThanEqual = 190,
    ShiftRightLogical = 194,
    ShiftRightArithmetic = 195,
    ShiftLeftLogical = 196,
    BitwiseOr = 197,
    BitwiseXor = 198,
    BitwiseAnd = 199,
    Not = 200,
    ControlBarrier = 224,
    AtomicExchange = 229,
    AtomicIAdd = 234,
    AtomicSMin = 236,
    AtomicUMin = 237,
    AtomicSMax = 238,
    AtomicUMax = 239,
    AtomicOr = 241,
    Phi = 245,
    LoopMerge = 246,
    SelectionMerge = 247,
    Label = 248,
    Branch = 249,
    BranchConditional = 250,
    Return = 253,
    GroupNonUniformBroadcast = 337,
    GroupNonUniformShuffleXor = 346,
    GroupNonUniformIAdd = 349,
    GroupNonUniformFAdd = 350,
    GroupNonUniformIMul = 351,
    GroupNonUniformFMul = 352,
    GroupNonUniformSMin = 353,
    GroupNonUniformUMin = 354,
    GroupNonUniformFMin = 355,
    GroupNonUniformSMax = 356,
    GroupNonUniformUMax = 357,
    GroupNonUniformFMax = 358,
    GroupNonUniformBitwiseAnd = 359,
    GroupNonUniformBitwiseOr = 360,
    GroupNonUniformLogicalAnd = 362,
    GroupNonUniformLogicalOr = 363,
    TypeCooperativeMatrixKHR = 4456,
    CooperativeMatrixLoadKHR = 4457,
    CooperativeMatrixStoreKHR = 4458,
    CooperativeMatrixMulAddKHR = 4459,
    CooperativeMatrixLengthKHR = 4460,
};

enum class Capability : uint32_t {
    Shader = 1,
    Float16 = 9,
    GroupNonUniform = 61,
    GroupNonUniformArithmetic = 63,
    GroupNonUniformBallot = 64,
    GroupNonUniformShuffle = 65,
    StorageBuffer16BitAccess = 4433,
    SignedZeroInfNanPreserve = 4466,
    BFloat16TypeKHR = 5116,
    BFloat16CooperativeMatrixKHR = 5118,
    VulkanMemoryModel = 5345,
    CooperativeMatrixKHR = 6022,
};

enum class Decoration : uint32_t {
    Block = 2,
    ArrayStride = 6,
    BuiltIn = 11,
    Restrict = 19,
    NonWritable = 24,
    Binding = 33,
    DescriptorSet = 34,
    Offset = 35,
    NoContraction = 42,
};

enum class BuiltIn : uint32_t {
    NumWorkgroups = 24,
    WorkgroupId = 26,
    LocalInvocationId = 27,
    LocalInvocationIndex = 29,
    SubgroupSize = 36,
    SubgroupId = 40,
    SubgroupLocalInvocationId = 41,
};

enum class StorageClass : uint32_t { Input = 1, Workgroup = 4, Function = 7, PushConstant = 9, StorageBuffer = 12 };

enum class Scope : uint32_t { Device = 1, Workgroup = 2, Subgroup = 3, QueueFamily = 5 };

enum MemorySemantics : uint32_t {
    AcquireRelease = 0x8,
    UniformMemory = 0x40,
    WorkgroupMemory = 0x100,
    MakeAvailable = 0x2000,
    MakeVisible = 0x4000,
};

inline constexpr uint32_t addressing_logical = 0;
inline constexpr uint32_t memory_model_glsl450 = 1, memory_model_vulkan = 3;
inline constexpr uint32_t execution_model_gl_compute = 5;
inline constexpr uint32_t execution_mode_local_size = 17;
inline constexpr uint32_t execution_mode_signed_zero_inf_nan_preserve = 4461;
inline constexpr uint32_t non_private_pointer = 0x20;  // memory operand
inline constexpr uint32_t group_operation_reduce = 0;
inline constexpr uint32_t fp_encoding_bfloat16 = 0;
inline constexpr uint32_t matrix_row_major = 0, matrix_column_major = 1;

// GLSL.std.450.
enum class Glsl : uint32_t {
    RoundEven = 2,
    Trunc = 3,
    FAbs = 4,
    SAbs = 5,
    Floor = 8,
    Ceil = 9,
    Sin = 13,
    Cos = 14,
    Tanh = 21,
    Pow = 26,
    Exp = 27,
    Log = 28,
    Exp2 = 29,
    Log2 = 30,
    Sqrt = 31,
    InverseSqrt = 32,
    FMin = 37,
    UMin = 38,
    SMin = 39,
    FMax = 40,
    UMax = 41,
    SMax = 42,
    FClamp = 43,
    Fma = 50,
    UnpackHalf2x16 = 62,
};

}  // namespace darner::spirv
