#include "model/model.h"

namespace quire {

Result<std::unique_ptr<Model>> load_model(const ModelFile& file, Ops& ops, const LoadOptions& options) {
  QR_TRY(const std::string arch, file.meta.get_string("general.architecture"));
  const ArchEntry* entry = Registry<ArchEntry>::get().find(arch);
  if (entry == nullptr) {
    std::string known;
    for (const std::string& name : Registry<ArchEntry>::get().names()) known += " " + name;
    return fail(Code::unsupported, file.path + ": architecture \"" + arch + "\" is not supported; known:" + known);
  }
  return entry->load(file, ops, options);
}

}  // namespace quire
