// quire quantize: a model with its matrices in another weight format, or in a mix of several, as a GGUF file. A GGUF
// file's facts and vectors are copied as they are; a Hugging Face folder takes GGUF's form first.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "app/carried_tokenizer.h"
#include "app/command.h"
#include "app/imatrix.h"
#include "app/output_file.h"
#include "app/progress.h"
#include "base/lower_case.h"
#include "base/mmap.h"
#include "base/thread.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "io/model_file.h"
#include "model/gguf_form.h"
#include "quant/convert.h"
#include "quant/mixes.h"

namespace quire {
namespace {

struct Args {
  std::string in, out, type, imatrix;
  std::vector<std::string> tensor_types;
  int threads = 0;
  bool force = false;
};

std::string known_formats() {
  std::string out;
  for (const WeightFormat* format : weight_formats()) {
    if (format->is_in_gguf()) out += (out.empty() ? "" : ", ") + std::string(format->name);
  }
  for (const Mix& mix : mixes()) out += ", " + std::string(mix.name);
  return out;
}

// A format that a GGUF file can have, by its name in any case; null: there is none.
const WeightFormat* format_named(const std::string& name) {
  const WeightFormat* format = find_weight_format(std::string_view(lower_case(name)));
  return format != nullptr && format->is_in_gguf() ? format : nullptr;
}

// What was asked for: a format for all, or a mix; and over it formats for tensors with a part of their name.
struct Wish {
  const WeightFormat* format = nullptr;
  const Mix* mix = nullptr;
  std::vector<std::pair<std::string, const WeightFormat*>> parts;

  const WeightFormat& of(const std::string& tensor, bool tied) const {
    for (const auto& [part, wanted] : parts)
      if (tensor.find(part) != std::string::npos) return *wanted;
    return format != nullptr ? *format : mix_format(*mix, tensor, tied);
  }
};

Result<Wish> read_wish(const Args& args) {
  Wish wish{format_named(args.type), find_mix(lower_case(args.type)), {}};
  if (wish.format == nullptr && wish.mix == nullptr)
    return fail(Code::invalid, "TYPE \"" + args.type + "\" is unknown (known: " + known_formats() + ")");
  for (const std::string& text : args.tensor_types) {
    const size_t equals = text.find('=');
    const WeightFormat* format = equals == std::string::npos ? nullptr : format_named(text.substr(equals + 1));
    if (format == nullptr || equals == 0)
      return fail(Code::invalid, "--tensor-type must be PART=TYPE, such as ffn_down=q6_k, got \"" + text + "\"");
    wish.parts.emplace_back(text.substr(0, equals), format);
  }
  return wish;
}

// The file's tensors in its own order, each with the format it will have.
struct Job {
  const HostWeight* weight;
  const WeightFormat *wanted, *to;
  int64_t bytes() const { return weight->n_rows() * to->row_bytes(weight->n_cols()); }
};

std::vector<Job> plan(const ModelFile& model, const Wish& wish) {
  std::vector<Job> jobs;
  const bool tied = model.find("output.weight") == nullptr;
  jobs.reserve(model.tensors.size());
  for (const HostWeight& weight : model.tensors) {
    const WeightFormat& wanted = wish.of(weight.name, tied);
    const WeightFormat* to = fitting_format(weight, wanted);
    if (!to->is_in_gguf()) to = find_weight_format(std::string_view("q8_0"));  // its own: f4_64, made of two tensors
    jobs.push_back({&weight, &wanted, to});
  }
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return a.weight->stored().front().data() < b.weight->stored().front().data();
  });
  return jobs;
}

constexpr std::string_view kImatrixFacts = "quantize.imatrix.";

void copy_facts(const GgufHeader& header, GgufWriter& writer) {
  bool has_version = false;
  for (const GgufFact& fact : header.facts) {
    // The file type names the old format and the alignment is the writer's.
    if (fact.key == "general.file_type" || fact.key == "general.alignment") continue;
    if (fact.key.starts_with(kImatrixFacts)) continue;  // of the conversion before
    has_version |= fact.key == "general.quantization_version";
    writer.add_raw(fact.key, fact.value);
  }
  if (!has_version) writer.add_u32("general.quantization_version", 2);
}

// A fact in the narrowest of the types that GGUF's readers expect.
struct PutFact {
  GgufWriter& writer;
  const std::string& key;

  void operator()(bool v) const { writer.add_bool(key, v); }
  void operator()(int64_t v) const {
    if (v < 0 && v >= std::numeric_limits<int32_t>::min()) {
      writer.add_i32(key, static_cast<int32_t>(v));
    } else if (v >= 0 && v <= std::numeric_limits<uint32_t>::max()) {
      writer.add_u32(key, static_cast<uint32_t>(v));
    } else {
      writer.add_u64(key, static_cast<uint64_t>(v));
    }
  }
  void operator()(uint64_t v) const { writer.add_u64(key, v); }
  void operator()(double v) const { writer.add_f32(key, static_cast<float>(v)); }
  void operator()(const std::string& v) const { writer.add_string(key, v); }
  void operator()(const std::vector<int64_t>& v) const {
    std::vector<int32_t> narrow;
    narrow.reserve(v.size());
    for (const int64_t one : v) narrow.push_back(static_cast<int32_t>(one));
    writer.add_i32s(key, narrow);
  }
  void operator()(const std::vector<double>& v) const { writer.add_f32s(key, std::vector<float>(v.begin(), v.end())); }
  void operator()(const std::vector<std::string>& v) const { writer.add_strings(key, v); }
};

// Of a folder in GGUF's form, with its tokenizer's files.
Status write_facts(const ModelFile& model, GgufWriter& writer) {
  for (const auto& [key, value] : model.meta.values) std::visit(PutFact{writer, key}, value);
  writer.add_u32("general.quantization_version", 2);
  if (!has_tokenizer_files(model.path)) return {};
  QR_TRY(const TokenizerFiles files, read_tokenizer_files(model.path));
  const HostWeight* embedding = model.find("token_embd.weight");
  return put_tokenizer(files, embedding != nullptr ? static_cast<int>(embedding->n_rows()) : 0, writer);
}

// How every tensor is converted.
struct How {
  int n_threads;
  Imatrix importance;  // empty: none
};

// Empty where the file names none for this tensor; its rows' length otherwise.
Result<std::vector<float>> importance_of(const HostWeight& weight, const How& how) {
  const auto it = how.importance.weights.find(weight.name);
  if (it == how.importance.weights.end()) return std::vector<float>{};
  std::vector<float> out = it->second.means();
  if (out.size() == static_cast<size_t>(weight.n_cols())) return out;
  return fail(Code::invalid, "tensor \"" + weight.name + "\": has rows of " + std::to_string(weight.n_cols()) +
                                 ", the importance matrix " + std::to_string(out.size()) +
                                 " numbers: it is of another model");
}

// "[ 17/272]"
std::string place_text(size_t i, size_t n) {
  const std::string all = std::to_string(n), at = std::to_string(i + 1);
  return "[" + std::string(all.size() - at.size(), ' ') + at + "/" + all + "]";
}

// `place` begins its line.
Status write_tensor(const Job& job, const std::string& place, const How& how, Progress& bar, GgufWriter& writer) {
  const HostWeight& weight = *job.weight;
  std::string shape;
  for (const int64_t extent : weight.shape) shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
  const auto print_head = [&] {
    bar.clear();
    std::printf("%s %-36s %-16s %-6s", place.c_str(), weight.name.c_str(), shape.c_str(),
                std::string(weight.format->name).c_str());
  };
  if (job.to == weight.format) {
    print_head();
    std::printf(" kept\n");
    return writer.write(weight.data);
  }
  QR_TRY(const std::vector<float> importance, importance_of(weight, how));
  std::vector<std::byte> bytes(static_cast<size_t>(job.bytes()));
  const Conversion conversion{.n_threads = how.n_threads, .importance = importance};
  QR_TRY(const ConversionError error, convert_weight(weight, *job.to, conversion, bytes.data()));
  print_head();
  std::printf(" to %-6s error %.5f, at most %.3g%s\n", std::string(job.to->name).c_str(), error.relative, error.largest,
              job.to == job.wanted ? "" : ("; rows are no whole blocks of " + std::string(job.wanted->name)).c_str());
  return writer.write(bytes);
}

// Whether OUT may be written: never in place of what is read, and of another file only where --force says so.
Status check_out(const Args& args) {
  const std::string read[] = {args.in, args.imatrix};
  QR_TRY_VOID(check_not_read("OUT", args.out, read));
  QR_TRY_VOID(check_may_be_replaced("OUT", args.out));
  std::error_code error;
  if (!args.force && std::filesystem::exists(std::filesystem::symlink_status(args.out, error)))
    return fail(Code::invalid, "OUT " + args.out + " is there; --force replaces it");
  return {};
}

Status run(const Args& args) {
  QR_TRY(const Wish wish, read_wish(args));
  QR_TRY_VOID(check_out(args));
  const int n_threads = args.threads == 0 ? n_usable_cpus() : args.threads;
  How how{n_threads, {}};
  if (!args.imatrix.empty()) {
    QR_TRY(how.importance, Imatrix::open(args.imatrix));
  }
  QR_TRY(ModelFile model, open_model(args.in));
  QR_TRY_VOID(check_not_part("OUT", args.out, model));
  GgufWriter writer(args.out, args.force ? GgufWriter::Existing::replaced : GgufWriter::Existing::kept);
  if (model.is_hugging_face) {
    QR_TRY(model, gguf_form(model));
    QR_TRY_VOID(write_facts(model, writer));
  } else {
    QR_TRY(const GgufHeader header, parse_gguf(model.maps.front()->bytes(), GgufParts::all));
    copy_facts(header, writer);
  }
  if (!args.imatrix.empty()) {
    const std::string prefix(kImatrixFacts);
    writer.add_string(prefix + "file", std::filesystem::path(args.imatrix).filename().string());
    writer.add_u32(prefix + "entries_count", static_cast<uint32_t>(how.importance.weights.size()));
  }
  if (wish.mix != nullptr) writer.add_u32("general.file_type", wish.mix->file_type);
  const std::vector<Job> jobs = plan(model, wish);
  int64_t before = 0;
  int64_t after = 0;
  for (const Job& job : jobs) {
    QR_TRY_VOID(writer.add_tensor(job.weight->name, job.to->ggml_type, job.weight->shape));
    before += job.weight->stored_bytes();
    after += job.bytes();
  }
  Progress bar(args.out, before, Progress::Unit::bytes);
  int64_t done = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    bar.update(done);
    QR_TRY_VOID(write_tensor(jobs[i], place_text(i, jobs.size()), how, bar, writer));
    done += jobs[i].weight->stored_bytes();
    model.release(*jobs[i].weight);
  }
  QR_TRY_VOID(model.check_unchanged());
  QR_TRY_VOID(writer.finish());
  std::printf("%s: %zu tensors, %ld bytes of %ld\n", args.out.c_str(), jobs.size(), static_cast<long>(after),
              static_cast<long>(before));
  return {};
}

QR_REGISTER(Command,
            "quantize",
            Command{"write a model in another weight format", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("IN", args->in, true, "a GGUF file or a Hugging Face folder");
                      line.positional("OUT", args->out, true, "the file to write");
                      line.positional("TYPE", args->type, true,
                                      "a weight format, as `quire inspect` names it, or a mix such as q4_k_m; in any "
                                      "case");
                      line.option("--tensor-type", args->tensor_types,
                                  "PART=TYPE: another format for tensors whose name has this part, may be repeated");
                      line.option("--imatrix", args->imatrix,
                                  "an importance matrix by `quire imatrix` or llama.cpp: what matters comes nearer");
                      line.option("--threads", args->threads, kThreads, "0 for all that can run");
                      line.flag("--force", args->force, "replace OUT where it is there; never what is read");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
