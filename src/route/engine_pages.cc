#include "route/engine_pages.h"

#include <algorithm>
#include <utility>

#include "base/utc_time.h"

namespace quire {
namespace {

Json status_of(const LocalModelState& model) {
  Json out = Json::Object{{"value", name_of(model.state)}};
  if (model.failure.empty()) return out;
  out.set("failed", true);
  out.set("error", model.failure);
  return out;
}

// Clients expect the fields, also where nothing is known.
Json details_of(const LocalModelState& model) {
  if (const auto shown = Json::parse(model.shown); shown && shown->find("details") != nullptr)
    return *shown->find("details");
  return Json::Object{{"parent_model", ""},        {"format", model.format}, {"family", ""},
                      {"families", Json::Array{}}, {"parameter_size", ""},   {"quantization_level", ""}};
}

Json tag_of(const LocalModelState& model, const std::string& name) {
  return Json::Object{{"name", name},        {"model", name}, {"modified_at", utc_time(model.modified_s)},
                      {"size", model.bytes}, {"digest", ""},  {"details", details_of(model)}};
}

}  // namespace

Json::Array model_entries(const std::vector<LocalModelState>& local, Json::Array listed) {
  Json::Array out;
  for (const LocalModelState& model : local) {
    const auto at =
        std::find_if(listed.begin(), listed.end(), [&](const Json& one) { return *id_of(one) == model.name; });
    if (model.gone) {
      if (at != listed.end() && model.state != EngineState::off) listed.erase(at);
      continue;
    }
    Json entry =
        at != listed.end()
            ? std::move(*at)
            : Json(Json::Object{
                  {"id", model.name}, {"object", "model"}, {"created", model.modified_s}, {"owned_by", "quire"}});
    if (at != listed.end()) listed.erase(at);
    entry.set("status", status_of(model));
    out.push_back(std::move(entry));
    for (const std::string& variant : model.variants)
      out.push_back(Json::Object{{"id", model.name + ":" + variant},
                                 {"object", "model"},
                                 {"created", model.modified_s},
                                 {"owned_by", "quire"},
                                 {"parent", model.name},
                                 {"status", status_of(model)}});
  }
  std::move(listed.begin(), listed.end(), std::back_inserter(out));
  return out;
}

Json::Array tag_entries(const std::vector<LocalModelState>& local) {
  Json::Array out;
  for (const LocalModelState& model : local) {
    if (model.gone) continue;
    out.push_back(tag_of(model, model.name));
    for (const std::string& variant : model.variants) out.push_back(tag_of(model, model.name + ":" + variant));
  }
  return out;
}

std::string show_page(const LocalModelState& model) {
  if (!model.shown.empty()) return model.shown;
  return Json(Json::Object{{"modelfile", ""},
                           {"parameters", ""},
                           {"template", ""},
                           {"details", details_of(model)},
                           {"model_info", Json::Object{}},
                           {"capabilities", Json::Array{"completion"}},
                           {"modified_at", utc_time(model.modified_s)}})
      .dump();
}

Json::Array ps_entries(const std::vector<LocalModelState>& local, int64_t now_s) {
  Json::Array out;
  for (const LocalModelState& model : local) {
    if (model.state != EngineState::on) continue;
    Json entry = tag_of(model, model.name);
    entry.set("expires_at",
              model.expires_ms == kKeepForever ? kLastUtcTime : utc_time(now_s + model.expires_ms / 1000));
    entry.set("size_vram", 0);
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace quire
