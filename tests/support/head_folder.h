// What tests of heads share that guess for a model: a model of a shape and nothing else, operations that count what is
// allocated, and a copy of a head's folder in which one thing is another.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "backend/ref/ref_ops.h"
#include "io/test_folder.h"
#include "model/model.h"
#include "ops/forwarding_ops.h"

namespace quire {

class ShapeModel : public Model {
 public:
  ShapeModel(int n_embd, int n_vocab) {
    info_.arch = "shape";
    info_.n_embd = n_embd;
    info_.n_vocab = n_vocab;
  }
  int64_t arena_bytes(int64_t, int64_t) const override { return 0; }
  Tensor embed(const Pass&) const override { return {}; }
  Tensor layers(Tensor x, LayerRange, const Pass&) const override { return x; }
  Tensor head(Tensor x, const Pass&) const override { return x; }
};

class CountingOps final : public WrappedOps {
 public:
  using WrappedOps::WrappedOps;
  Result<Buffer> allocate(int64_t bytes) override {
    n_bytes += bytes;
    return WrappedOps::allocate(bytes);
  }
  Result<Buffer> allocate_blocks(int64_t bytes) override {
    n_bytes += bytes;
    return WrappedOps::allocate_blocks(bytes);
  }
  Result<Buffer> allocate_arena(int64_t bytes) override {
    n_bytes += bytes;
    return WrappedOps::allocate_arena(bytes);
  }
  int64_t n_bytes = 0;
};

struct ChangedFolder {
  ChangedFolder(const std::string& from, std::initializer_list<const char*> names) {
    for (const char* name : names) std::filesystem::copy_file(from + "/" + name, path(name));
  }
  std::string path(const char* name) const { return folder.path() + "/" + name; }
  std::string read(const char* name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {(std::istreambuf_iterator<char>(in)), {}};
  }
  // Of the first `from` in it. Tensors stay where they are as long as both have the same length.
  void put(const char* name, const std::string& from, const std::string& to) const {
    std::string bytes = read(name);
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    folder.write(name, bytes.replace(at, from.size(), to));
  }
  // What `load` (a folder and operations) says of it: an error that begins with the folder.
  template <class Load>
  std::string refusal(const Load& load) const {
    const auto ops = make_ref_ops();
    const auto loaded = load(folder.path(), *ops);
    EXPECT_FALSE(loaded);
    const std::string message = loaded ? "" : loaded.error().message;
    EXPECT_EQ(message.find(folder.path() + ": "), 0U) << message;
    return message;
  }
  TempFolder folder;
};

#define EXPECT_NAMES(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

}  // namespace quire
