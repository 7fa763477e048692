// quire doctor: what this machine, and a model on it, should reach, and what is in the way.
#include "app/doctor.h"

#include <cstdio>

#include "app/memory_plan.h"
#include "app/wire.h"
#include "tensor/probe.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  bool json = false, no_probe = false;
};

Result<ModelFacts> model_facts(const Args& args) {
  const Result<std::string> path = model_path(args.model.model);
  if (!path && args.model.model.empty()) return ModelFacts();  // none named and none bundled
  if (!path) return tl::make_unexpected(path.error());
  QR_TRY(const ModelFile file, open_model(*path));
  EngineOptions options;
  QR_TRY(const MemoryNeeds needs, measure_needs(file, args.model, options));
  ModelFacts out;
  out.weights = needs.weights;
  out.needs =
      needs.weights + needs.scratch + needs.largest + needs.process + needs.kv_bytes(std::min(needs.n_ctx, 512));
  out.step = needs.step;
  return out;
}

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::ok: return "ok";
    case Severity::hint: return "hint";
    case Severity::problem: return "problem";
  }
  return "problem";
}

Json as_json(const DoctorFacts& machine, const std::vector<Finding>& findings, const Ceiling& most) {
  Json::Array checks;
  for (const Finding& f : findings) {
    Json check;
    check.set("subject", f.subject);
    check.set("severity", name_of(f.severity));
    check.set("says", f.says);
    if (!f.hint.empty()) check.set("hint", f.hint);
    checks.push_back(std::move(check));
  }
  Json out;
  out.set("checks", std::move(checks));
  if (machine.read_bytes_s > 0) out.set("read_bytes_s", machine.read_bytes_s);
  if (machine.peak.int8 > 0) out.set("int8_ops_s", machine.peak.int8);
  if (machine.peak.f32 > 0) out.set("f32_ops_s", machine.peak.f32);
  if (machine.peak.bf16 > 0) out.set("bf16_ops_s", machine.peak.bf16);
  if (most.decode > 0) out.set("decode_tok_s", most.decode);
  if (most.prefill > 0) out.set("prefill_tok_s", most.prefill);
  return out;
}

void print(const DoctorFacts& machine, const std::vector<Finding>& findings, const Ceiling& most) {
  for (const Finding& f : findings) {
    std::printf("%-8s %-16s %s\n", name_of(f.severity), f.subject.c_str(), f.says.c_str());
    if (!f.hint.empty()) std::printf("%-8s %-16s → %s\n", "", "", f.hint.c_str());
  }
  if (machine.read_bytes_s > 0) std::printf("memory is read at %.1f GB/s", machine.read_bytes_s * 1e-9);
  if (machine.peak.int8 > 0) {
    std::printf(", int8 multiply-adds run at %.0f GOP/s, f32 ones at %.0f, bf16 ones at %.0f", machine.peak.int8 * 1e-9,
                machine.peak.f32 * 1e-9, machine.peak.bf16 * 1e-9);
  }
  if (machine.read_bytes_s > 0) std::printf("\n");
  if (most.decode > 0) std::printf("one sequence decodes at most %.1f tok/s here", most.decode);
  if (most.prefill > 0) std::printf(", a prompt of %d tokens at most %.0f tok/s", kCeilingPrompt, most.prefill);
  if (most.decode > 0) std::printf("; `quire bench` measures what it does\n");
}

Status probe(const Args& args, DoctorFacts& machine) {
  if (args.no_probe) return {};
  QR_TRY(machine.read_bytes_s, probe_read_bandwidth(machine.n_threads));
  QR_TRY(machine.peak, probe_peak(args.model));
  return {};
}

Result<bool> run(const Args& args) {
  DoctorFacts machine = gather_facts();
  machine.n_threads = n_threads(args.model);
  QR_TRY(const ModelFacts model, model_facts(args));
  QR_TRY_VOID(probe(args, machine));
  const std::vector<Finding> findings = diagnose(machine, model);
  const Ceiling most = ceiling(machine, model);
  if (args.json) {
    std::printf("%s\n", as_json(machine, findings, most).dump().c_str());
  } else {
    print(machine, findings, most);
  }
  bool well = true;
  for (const Finding& f : findings) well = well && f.severity != Severity::problem;
  return well;
}

QR_REGISTER(Command,
            "doctor",
            Command{"what this machine and a model should reach, and what is in the way", false,
                    [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      declare_model_options(line, args->model);
                      line.flag("--no-probe", args->no_probe, "measure nothing, only look");
                      line.flag("--json", args->json, "print one JSON object");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
