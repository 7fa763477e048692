// quire registries (hidden): what registered itself, for the test that holds it against the files on disk.
#include <cstdio>

#include "app/command.h"
#include "base/json.h"
#include "engine/policy.h"
#include "kv/kv_policy.h"
#include "model/model.h"
#include "quant/kv_codec.h"
#include "quant/weight_format.h"
#include "route/policy.h"
#include "sample/filters.h"
#include "sample/rules.h"
#include "serve/api.h"
#include "spec/proposer.h"
#include "text/parse/call_form.h"

namespace quire {
namespace {

Json list(const std::vector<std::string>& names) {
  Json::Array out;
  for (const std::string& name : names) out.emplace_back(name);
  return Json(std::move(out));
}

template <class T>
std::vector<std::string> names_of(std::span<const T* const> entries) {
  std::vector<std::string> out;
  for (const T* entry : entries) out.emplace_back(entry->name);
  return out;
}

int run() {
  Json out;
  out.set("arch", list(Registry<ArchEntry>::get().names()));
  out.set("policy", list(Registry<PolicyEntry>::get().names()));
  out.set("kv_policy", list(Registry<KvPolicyEntry>::get().names()));
  out.set("api", list(Registry<Api>::get().names()));
  std::vector<std::string> filters;
  for_each_filter([&](auto filter) { filters.emplace_back(filter.kName); });
  out.set("filter", list(filters));
  out.set("rule", list(Registry<LogitsRuleEntry>::get().names()));
  out.set("proposer", list(Registry<ProposerEntry>::get().names()));
  out.set("tool_format", list(Registry<CallForm>::get().names()));
  out.set("route_policy", list(Registry<RoutePolicyEntry>::get().names()));
  out.set("command", list(Registry<Command>::get().names()));
  out.set("weights", list(names_of(weight_formats())));
  out.set("kv", list(names_of(kv_codecs())));
  std::printf("%s\n", out.dump().c_str());
  return kExitDone;
}

QR_REGISTER(Command,
            "registries",
            Command{"print what registered itself, as JSON", true, [](CommandLine& line) -> std::function<int()> {
                      auto json = std::make_shared<bool>(true);
                      line.flag("--json", *json, "the only form");
                      return [json] { return run(); };
                    }});

}  // namespace
}  // namespace quire
