#include "service/agent/native_stacks/call_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace longhaul::service {
namespace {

TEST(CallName, HasNoParametersAndNoValuesOfTemplates) {
  const struct {
    std::string symbol;
    std::string name;
  } kRows[] = {
      {"main", "main"},
      {"_ZN4gloo9allreduceERKNS_16AllreduceOptionsE", "gloo::allreduce"},
      {"_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector<>::size"},
      {"_Z3fooIiEvT_", "foo<>"},
      {"_ZN12_GLOBAL__N_14waitEi", "(anonymous)::wait"},
      {"_ZlsRSoi", "operator<<"},
      {"_Znwm", "operator new"},
      {"_ZZ4mainENKUlvE_clEv", "main::{lambda#1}::operator()"},
      {"_ZThn16_N1A1fEv", "A::f"},
      {"_ZNK1A1fB5cxx11Ev", "A::f"},
      {"_ZN1A1fEv.isra.0", "A::f"},
      {"do_wait.part.0", "do_wait"},
      {"pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"},
      {"ncclAllReduce(void const*, void*, unsigned long)", "ncclAllReduce"},
      {"_Znot_a_name", "_Znot_a_name"},
      {"f\n\x1b[2J", "f\\x0a\\x1b[2J"},
      {"", ""},
  };
  for (const auto& row : kRows) EXPECT_EQ(CallName(row.symbol), row.name) << row.symbol;
}

TEST(CallName, OfALongSymbolIsShort) {
  EXPECT_LE(CallName(std::string(100'000, 'a')).size(), 99u);
  EXPECT_LE(CallName("_Z" + std::string(100'000, 'P')).size(), 99u);
}

TEST(CallName, OfAnySymbolIsPrintable) {
  std::mt19937_64 random(7);
  const std::string kParts[] = {
      "_Z",    "N",      "I",    "E",        "(",  ")",
      "<",     ">",      " ",    "operator", "::", "(anonymous namespace)",
      "[abi:", " const", "3abc", "S_",       "-",  "&"};
  for (int i = 0; i < 20'000; ++i) {
    std::string symbol = i % 2 == 0 ? "_Z" : "";
    for (uint64_t parts = random() % 16; parts > 0; --parts) {
      symbol += kParts[random() % std::size(kParts)];
    }
    for (const char c : CallName(symbol)) ASSERT_TRUE(c >= ' ' && c <= '~') << symbol;
  }
}

}  // namespace
}  // namespace longhaul::service
