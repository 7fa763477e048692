# Generated sources: the registries of quant (one line per header in the folder) and, for the CPU backend, one
# translation unit per kernel × instruction set. Flags wider than the base appear in this file only.

set(QR_ISA_FLAGS_scalar "")
set(QR_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(QR_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -mprefer-vector-width=512)
set(QR_ISA_FLAGS_avx512_bf16 ${QR_ISA_FLAGS_avx512} -mavx512bf16)
set(QR_ISA_FLAGS_amx ${QR_ISA_FLAGS_avx512} -mamx-tile -mamx-int8)
# Sets that only add to another: whose kernels they take for what they add nothing to, attention but for some codecs and,
# where it is given, all but some weight formats.
set(QR_ISA_BASE_avx512_bf16 avx512)
set(QR_ISA_LINEAR_avx512_bf16 bf16)
set(QR_ISA_ATTENTION_avx512_bf16 bf16)
set(QR_ISA_BASE_amx avx512)
# Encoders of weights: floats side by side, no fused products.
set(QR_ENCODER_ISAS avx2 avx512)
set(QR_ENCODER_LANES 8 16)
set(QR_ENCODER_FLAGS_avx2 -mavx2)
set(QR_ENCODER_FLAGS_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
# Kernels for AVX-512 and AMX made so that AVX2 runs them, slowly: for tests on a CPU without (docs/backend-cpu.md).
set(QR_EMULATED_ISAS scalar avx512 avx512_bf16 amx)
set(QR_EMULATED_FLAGS ${QR_ISA_FLAGS_avx2} -Wno-ignored-attributes -include ${CMAKE_SOURCE_DIR}/src/backend/cpu/isa/avx512/emulated.h)

# "q8_0.h" → Q8_0 for weights, "f16.h" → KvF16 for codecs: the struct is the file's name in capitals.
function(quire_formats out_names out_types folder prefix)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/quant/${folder}/*.h)
  set(names "")
  set(types "")
  foreach(header IN LISTS headers)
    get_filename_component(name ${header} NAME_WE)
    string(TOUPPER ${name} type)
    list(APPEND names ${name})
    list(APPEND types ${prefix}${type})
  endforeach()
  set(${out_names} "${names}" PARENT_SCOPE)
  set(${out_types} "${types}" PARENT_SCOPE)
endfunction()

# Writes only when the text changed, so that a new configure does not rebuild.
function(quire_write path text)
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
endfunction()

# Of the instruction set `isa`, in the folder `dir`: a source with one of its tables of kernels, appended to `list`.
function(quire_isa_table list name type made)
  set(path ${dir}/${name}_${isa}.cc)
  quire_write(${path} "#include \"backend/cpu/isa/${isa}/vec.h\"
#include \"backend/cpu/kernels/${name}.h\"

namespace quire {
extern const ${type} kernels_${name}_${isa};
const ${type} kernels_${name}_${isa} = ${made};
}  // namespace quire
")
  set(${list} ${${list}} ${path} PARENT_SCOPE)
endfunction()

function(quire_generate_quant)
  quire_formats(names types weights "")
  quire_formats(kv_names kv_types kv "Kv")
  set(includes "")
  set(weights "")
  set(codecs "")
  set(encoders "")
  foreach(name type IN ZIP_LISTS names types)
    string(APPEND includes "#include \"quant/weights/${name}.h\"\n")
    string(APPEND weights "  &kWeightFormat<quire::${type}>,\n")
    string(APPEND encoders "  &encode_as<quire::${type}>,\n")
  endforeach()
  foreach(name type IN ZIP_LISTS kv_names kv_types)
    string(APPEND includes "#include \"quant/kv/${name}.h\"\n")
    string(APPEND codecs "  &kKvCodec<quire::${type}>,\n")
  endforeach()
  # The search for scales once more for each wider instruction set: more candidates side by side, the same bytes.
  set(dir ${CMAKE_BINARY_DIR}/generated/quant)
  set(sources "")
  set(externs "")
  set(sets "")
  foreach(isa lanes IN ZIP_LISTS QR_ENCODER_ISAS QR_ENCODER_LANES)
    if(NOT isa IN_LIST QR_ISAS)
      continue()
    endif()
    set(wide "")
    foreach(type IN LISTS types)
      string(APPEND wide "  encoder_of<quire::${type}, ${lanes}>(),\n")
    endforeach()
    quire_write(${dir}/encoders_${isa}.cc "// Generated from src/quant/weights.
${includes}#include \"quant/encode.h\"

namespace quire {
extern const Encoder encoders_${isa}[];
const Encoder encoders_${isa}[] = {
${wide}};
}  // namespace quire
")
    set_source_files_properties(${dir}/encoders_${isa}.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${QR_ENCODER_FLAGS_${isa}};-Wno-psabi;-Wno-uninitialized;-Wno-maybe-uninitialized")
    list(APPEND sources ${dir}/encoders_${isa}.cc)
    string(APPEND externs "extern const Encoder encoders_${isa}[];\n")
    string(APPEND sets "  {\"${isa}\", {encoders_${isa}, std::size(kEncoders)}},\n")
  endforeach()
  set(path ${CMAKE_BINARY_DIR}/generated/quant/formats.cc)
  quire_write(${path} "// Generated from src/quant/weights and src/quant/kv.
${includes}#include \"quant/make_formats.h\"

namespace quire {
${externs}namespace {
const WeightFormat* const kWeights[] = {
${weights}};
constexpr Encoder kEncoders[] = {
${encoders}};
const EncoderSet kEncoderSets[] = {
  {\"base\", kEncoders},
${sets}};
const KvCodec* const kCodecs[] = {
${codecs}};
}  // namespace

std::span<const WeightFormat* const> weight_formats() { return kWeights; }
std::span<const KvCodec* const> kv_codecs() { return kCodecs; }
std::span<const EncoderSet> encoder_sets() { return kEncoderSets; }
}  // namespace quire
")
  set(QR_GENERATED_quant "${path};${sources}" CACHE INTERNAL "")
endfunction()

# Kernel files: linear_<format>_<isa>.cc, attention_<codec>_<isa>.cc, elementwise_<isa>.cc, states_<isa>.cc,
# low_rank_<isa>.cc, each exporting one table, and tables.cc (base flags) that collects them. They go to
# generated/`name`; `isas` are the sets; one argument more: the flags for all of them but scalar, in place of their own.
function(quire_generate_kernels out name isas)
  quire_formats(names types weights "")
  quire_formats(kv_names kv_types kv "Kv")
  set(dir ${CMAKE_BINARY_DIR}/generated/${name})
  set(sources "")
  set(externs "")
  set(states "")
  set(low_rank "")
  set(rows "")
  foreach(isa IN LISTS isas)
    set(flags ${QR_ISA_FLAGS_${isa}})
    if(ARGN AND NOT isa STREQUAL scalar)
      set(flags ${ARGN})
    endif()
    set(linear "")
    set(attention "")
    set(files "")
    foreach(name type IN ZIP_LISTS names types)
      if(QR_ISA_LINEAR_${isa} AND NOT name IN_LIST QR_ISA_LINEAR_${isa})
        string(APPEND linear "&kernels_linear_${name}_${QR_ISA_BASE_${isa}}, ")
        continue()
      endif()
      set(path ${dir}/linear_${name}_${isa}.cc)
      quire_write(${path} "#include \"backend/cpu/isa/${isa}/vec.h\"
#include \"backend/cpu/kernels/linear.h\"
#include \"quant/weights/${name}.h\"

namespace quire {
extern const LinearKernels kernels_linear_${name}_${isa};
const LinearKernels kernels_linear_${name}_${isa} = make_linear_kernels<Vec, ${type}>();
}  // namespace quire
")
      list(APPEND files ${path})
      string(APPEND externs "extern const LinearKernels kernels_linear_${name}_${isa};\n")
      string(APPEND linear "&kernels_linear_${name}_${isa}, ")
    endforeach()
    foreach(name type IN ZIP_LISTS kv_names kv_types)
      if(QR_ISA_BASE_${isa} AND NOT name IN_LIST QR_ISA_ATTENTION_${isa})
        string(APPEND attention "&kernels_attention_${name}_${QR_ISA_BASE_${isa}}, ")
        continue()
      endif()
      string(APPEND attention "&kernels_attention_${name}_${isa}, ")
      set(path ${dir}/attention_${name}_${isa}.cc)
      quire_write(${path} "#include \"backend/cpu/isa/${isa}/vec.h\"
#include \"backend/cpu/kernels/attention.h\"
#include \"quant/kv/${name}.h\"

namespace quire {
extern const AttentionKernels kernels_attention_${name}_${isa};
const AttentionKernels kernels_attention_${name}_${isa} = make_attention_kernels<Vec, ${type}>();
}  // namespace quire
")
      list(APPEND files ${path})
      string(APPEND externs "extern const AttentionKernels kernels_attention_${name}_${isa};\n")
    endforeach()
    quire_isa_table(files elementwise ElementwiseKernels "make_elementwise_kernels<Vec>()")
    quire_isa_table(files states StateKernels "make_state_kernels<Vec>(\"${isa}\")")
    quire_isa_table(files low_rank LowRankKernels "make_low_rank_kernels<Vec>(\"${isa}\")")
    string(APPEND states "&kernels_states_${isa}, ")
    string(APPEND low_rank "&kernels_low_rank_${isa}, ")
    string(APPEND externs "extern const StateKernels kernels_states_${isa};
extern const LowRankKernels kernels_low_rank_${isa};
extern const ElementwiseKernels kernels_elementwise_${isa};
const LinearKernels* const linear_${isa}[] = {${linear}};
const AttentionKernels* const attention_${isa}[] = {${attention}};\n")
    string(APPEND rows "    {\"${isa}\", &kernels_elementwise_${isa}, linear_${isa}, attention_${isa}},\n")
    # uninitialized: g++ 12 warns about its own intrinsics headers (PR 105593).
    set_source_files_properties(${files} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
      "${flags};-Wno-conversion;-Wno-sign-conversion;-Wno-psabi;-Wno-uninitialized;-Wno-maybe-uninitialized;-fno-math-errno;-fno-trapping-math")
    list(APPEND sources ${files})
  endforeach()
  quire_write(${dir}/tables.cc "// Generated: every kernel table of every instruction set that was compiled.
#include \"backend/cpu/kernels/low_rank_tables.h\"
#include \"backend/cpu/kernels/state_tables.h\"
#include \"backend/cpu/kernels/tables.h\"

namespace quire {
${externs}
namespace {
const IsaTable kTables[] = {
${rows}};
const StateKernels* const kStates[] = {${states}};
const LowRankKernels* const kLowRank[] = {${low_rank}};
}  // namespace
std::span<const IsaTable> isa_tables() { return kTables; }
std::span<const StateKernels* const> state_kernels() { return kStates; }
std::span<const LowRankKernels* const> low_rank_kernels() { return kLowRank; }
}  // namespace quire
")
  set(${out} "${sources};${dir}/tables.cc" PARENT_SCOPE)
endfunction()

# What stands for backend_cpu's kernels, its tables and the file that asks the CPU, where AVX2 runs them all. Which of
# its objects these replace: QR_EMULATED_REPLACES.
set(QR_EMULATED_REPLACES "/backend_cpu/(tables|[a-z0-9_]+_(avx2|avx512|avx512_bf16|amx))\\.cc\\.o$|/cpu_ops\\.cc\\.o$")
function(quire_emulated_kernels)
  quire_generate_kernels(sources backend_cpu_emulated "${QR_EMULATED_ISAS}" ${QR_EMULATED_FLAGS})
  list(FILTER sources EXCLUDE REGEX "_scalar\\.cc$")
  add_library(backend_cpu_emulated OBJECT EXCLUDE_FROM_ALL ${sources} ${CMAKE_SOURCE_DIR}/src/backend/cpu/cpu_ops.cc)
  target_compile_definitions(backend_cpu_emulated PRIVATE QR_EMULATE_AVX512)
  target_link_libraries(backend_cpu_emulated PUBLIC quire_options)
endfunction()
