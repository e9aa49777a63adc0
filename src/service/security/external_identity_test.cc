#include "service/security/external_identity.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

TEST(ExternalIdentity, IsConsultedForTheFormOfASignedTokenOnly) {
  const std::string hash(64, 'a');
  const struct {
    std::string text;
    bool is;
  } kRows[] = {
      {"eyJh.eyJz.c2ln", true},
      {"a.b.c", true},
      {"a-_9.B.c", true},
      {"", false},
      {"a.b", false},
      {"a.b.c.d", false},
      {"a.b.", false},  // without a signature
      {".b.c", false},
      {"a..c", false},
      {"a.b.c=", false},
      {"a.b+.c", false},
      {"a.b .c", false},
      {"a.b.c\n", false},
      {"lht_" + hash, false},
      {"lhj_" + hash + "." + hash, false},
      {std::string(kMostSignedTokenBytes - 4, 'a') + ".b.c", true},
      {std::string(kMostSignedTokenBytes - 3, 'a') + ".b.c", false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(IsSignedToken(row.text), row.is) << row.text.substr(0, 80);
  }
}

}  // namespace
}  // namespace longhaul::service
