#include "app/adapters.h"

#include <gtest/gtest.h>

#include "io/test_folder.h"

namespace quire {
namespace {

TEST(AdapterBytes, AreTwiceTheFilesUpToTheLimit) {
  const TempFolder folder;
  folder.write("one.gguf", std::string(1000, 'x'));
  folder.write("two/adapter_model.safetensors", std::string(300, 'x'));
  const std::vector<std::string> options = {"a=" + folder.path() + "/one.gguf", "b=" + folder.path() + "/two",
                                            "c=" + folder.path() + "/nowhere", "no option"};
  ServeLimits limits;
  EXPECT_EQ(adapter_bytes_of(options, limits), 2600);
  limits.adapter_bytes = 2100;
  EXPECT_EQ(adapter_bytes_of(options, limits), 2100);
  EXPECT_EQ(adapter_bytes_of({}, limits), 0);
}

}  // namespace
}  // namespace quire
