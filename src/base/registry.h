// Extensions register themselves by name: architectures, policies, dialects, proposers. Filled before main by
// QR_REGISTER, read-only afterwards, so any thread may read. A test compares each registry with the files on disk.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/result.h"

namespace quire {

template <class T>  // T is a plain value: a factory function or a struct of functions
class Registry {
 public:
  static Registry& get() {
    static Registry instance;
    return instance;
  }
  bool add(std::string_view name, T entry) {
    const bool fresh = entries_.emplace(std::string(name), entry).second;
    QR_CHECK(fresh, "registered twice: " + std::string(name));
    return fresh;
  }
  const T* find(std::string_view name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : entries_) out.push_back(entry.first);
    return out;
  }

 private:
  std::map<std::string, T, std::less<>> entries_;
};

// The entry of that name. Code::invalid says which names there are; `what` is what the name was given for, an option
// say.
template <class T>
Result<const T*> find_entry(std::string_view what, const std::string& name) {
  const T* entry = Registry<T>::get().find(name);
  if (entry != nullptr) return entry;
  std::string known;
  for (const std::string& each : Registry<T>::get().names()) known += " " + each;
  return fail(Code::invalid, std::string(what) + " \"" + name + "\" is unknown; there are:" + known);
}

}  // namespace quire

// At namespace scope of the extension's one file. T is the registered type, name a string literal.
#define QR_REGISTER(T, name, ...)                                          \
  [[maybe_unused]] static const bool QR_CONCAT(qr_registered_, __LINE__) = \
      ::quire::Registry<T>::get().add(name, __VA_ARGS__)
