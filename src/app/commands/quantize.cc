// quire quantize: a GGUF file with its matrices in another weight format. Facts and vectors are copied as they are.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "app/command.h"
#include "base/mmap.h"
#include "base/thread.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "io/model_file.h"
#include "quant/convert.h"

namespace quire {
namespace {

struct Args {
  std::string in, out, type;
  int threads = 0;
};

std::string known_formats() {
  std::string out;
  for (const WeightFormat* format : weight_formats()) out += (out.empty() ? "" : ", ") + std::string(format->name);
  return out;
}

// Routers choose among experts by small differences: they stay as they are.
bool stays(const std::string& name) { return name.find("ffn_gate_inp") != std::string::npos; }

// The file's tensors in its own order, each with the format it will have.
struct Job {
  const HostWeight* weight;
  const WeightFormat* to;
  int64_t bytes() const { return weight->n_rows() * to->row_bytes(weight->n_cols()); }
};

std::vector<Job> plan(const ModelFile& model, const WeightFormat& wanted) {
  std::vector<Job> jobs;
  for (const HostWeight& weight : model.tensors) {
    jobs.push_back({&weight, stays(weight.name) ? weight.format : &fitting_format(weight, wanted)});
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const Job& a, const Job& b) { return a.weight->data.data() < b.weight->data.data(); });
  return jobs;
}

void copy_facts(const GgufHeader& header, GgufWriter& writer) {
  bool has_version = false;
  for (const GgufFact& fact : header.facts) {
    // The file type names the old format and the alignment is the writer's.
    if (fact.key == "general.file_type" || fact.key == "general.alignment") continue;
    has_version |= fact.key == "general.quantization_version";
    writer.add_raw(fact.key, fact.value);
  }
  if (!has_version) writer.add_u32("general.quantization_version", 2);
}

Status write_tensor(const Job& job, const WeightFormat& wanted, int n_threads, GgufWriter& writer) {
  const HostWeight& weight = *job.weight;
  std::string shape;
  for (const int64_t extent : weight.shape) shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
  std::printf("%-36s %-16s %-6s", weight.name.c_str(), shape.c_str(), std::string(weight.format->name).c_str());
  if (job.to == weight.format) {
    std::printf(" kept\n");
    return writer.write(weight.data);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(job.bytes()));
  QR_TRY(const ConversionError error, convert_weight(weight, *job.to, n_threads, bytes.data()));
  std::printf(" to %-6s error %.5f, at most %.3g%s\n", std::string(job.to->name).c_str(), error.relative, error.largest,
              job.to == &wanted ? "" : ("; rows are no whole blocks of " + std::string(wanted.name)).c_str());
  return writer.write(bytes);
}

Status run(const Args& args) {
  const WeightFormat* wanted = find_weight_format(std::string_view(args.type));
  if (wanted == nullptr) {
    return fail(Code::invalid, "TYPE \"" + args.type + "\" is unknown (known: " + known_formats() + ")");
  }
  if (args.threads < 0) return fail(Code::invalid, "--threads must be at least 0, got " + std::to_string(args.threads));
  const int n_threads = args.threads == 0 ? n_usable_cpus() : args.threads;
  QR_TRY(const ModelFile model, open_model(args.in));
  const std::span<const std::byte> file = model.maps.front()->bytes();
  if (!is_gguf(file)) return fail(Code::unsupported, args.in + ": only GGUF files can be written anew");
  QR_TRY(const GgufHeader header, parse_gguf(file, GgufParts::all));
  const std::vector<Job> jobs = plan(model, *wanted);

  GgufWriter writer(args.out);
  copy_facts(header, writer);
  int64_t before = 0;
  int64_t after = 0;
  for (const Job& job : jobs) {
    QR_TRY_VOID(writer.add_tensor(job.weight->name, job.to->ggml_type, job.weight->shape));
    before += static_cast<int64_t>(job.weight->data.size());
    after += job.bytes();
  }
  for (const Job& job : jobs) QR_TRY_VOID(write_tensor(job, *wanted, n_threads, writer));
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
                      line.positional("IN", args->in, true, "a GGUF file");
                      line.positional("OUT", args->out, true, "the file to write");
                      line.positional("TYPE", args->type, true, "the weight format, as `quire inspect` names it");
                      line.option("--threads", args->threads, "0 for all that can run");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
