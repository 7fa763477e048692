// What is said of models that are known and not computed.
#include <gtest/gtest.h>

#include "model/model.h"

namespace quire {
namespace {

TEST(MissingArch, IsRefusedWithWhatItNeeds) {
  ModelFile folder;
  folder.path = "m";
  folder.is_hugging_face = true;
  folder.meta.values["hf.model_type"] = std::string("deepseek_v32");
  const auto translated = neutral_form(folder);
  ASSERT_FALSE(translated);
  EXPECT_EQ(translated.error().code, Code::unsupported);
  EXPECT_EQ(translated.error().message,
            "m: config.json: key \"model_type\": \"deepseek_v32\" is not supported: an indexer picks the keys that a "
            "row sees (sparse attention)");
  ModelFile gguf;
  gguf.path = "m.gguf";
  gguf.meta.values["general.architecture"] = std::string("glm-dsa");
  const auto info = model_info(gguf, {});
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().message,
            "m.gguf: \"glm-dsa\" is not supported: an indexer picks the keys that a row sees (sparse attention)");
}

TEST(MissingArch, NoneIsComputed) {
  for (const MissingArch& one : missing_archs()) {
    EXPECT_FALSE(one.lacks.empty());
    for (const std::string& name : Registry<ArchEntry>::get().names()) {
      EXPECT_NE(one.gguf, name);
      for (const std::string_view type : Registry<ArchEntry>::get().find(name)->hf.model_types)
        EXPECT_NE(one.model_type, type);
    }
  }
}

}  // namespace
}  // namespace quire
