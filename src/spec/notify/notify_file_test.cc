#include "spec/notify/notify_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NotifyFile, ReadsWebhooksAndCommands) {
  const auto hooks = ParseNotifyFile(
      "notify:\n"
      "  - webhook: https://user:secret@hooks.example.com:8443/services/T0?k=v\n"
      "  - command: [/usr/bin/page.sh, --token, abc]\n"
      "    events: [end, warning]\n"
      "    timeout: 2s\n",
      "n.yaml");
  ASSERT_TRUE(hooks.ok()) << hooks.status();
  ASSERT_EQ(hooks->size(), 2U);
  EXPECT_THAT((*hooks)[0].events,
              ElementsAre(HookEvent::kFault, HookEvent::kRecovered, HookEvent::kEnd));
  EXPECT_EQ((*hooks)[0].timeout, std::chrono::seconds(10));
  EXPECT_EQ(NameOf((*hooks)[0]), "webhook https://hooks.example.com:8443") << "no secrets";
  EXPECT_THAT((*hooks)[1].command, ElementsAre("/usr/bin/page.sh", "--token", "abc"));
  EXPECT_THAT((*hooks)[1].events, ElementsAre(HookEvent::kEnd, HookEvent::kWarning));
  EXPECT_EQ((*hooks)[1].timeout, std::chrono::seconds(2));
  EXPECT_EQ(NameOf((*hooks)[1]), "command page.sh");
}

TEST(NotifyFile, NamesTheLineAndTheExpectedValue) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"", "n.yaml: is empty"},
      {"hooks: []", "expected one key 'notify'"},
      {"notify: {command: [a]}", "expected one key 'notify' with a list"},
      {"notify:\n- {}", "n.yaml:2: notify: a hook has either webhook or command"},
      {"notify:\n- {webhook: 'https://a', command: [b]}", "either webhook or command"},
      {"notify:\n- webhook: ftp://a", "n.yaml:2: webhook: expected an address"},
      {"notify:\n- webhook: 'https:///path'", "webhook: expected an address"},
      {"notify:\n- command: page.sh", "command: expected a list"},
      {"notify:\n- command: []", "command: expected a list"},
      {"notify:\n- {command: [a], timeout: 1h}", "from 100ms to 5min"},
      {"notify:\n- {command: [a], events: [fault, step]}", "'step' is not an event"},
      {"notify:\n- {command: [a], event: [fault]}", "did you mean 'events'?"},
  };
  for (const auto& row : kRows) {
    const auto hooks = ParseNotifyFile(row.text, "n.yaml");
    ASSERT_FALSE(hooks.ok()) << row.text;
    EXPECT_THAT(hooks.status().message(), HasSubstr(row.message)) << row.text;
  }
}

TEST(NotifyFile, PrintsNoPartOfAnAddress) {
  for (const char* text : {"notify:\n- webhook: 'https://u:SECRET@h/SECRET SECRET'",
                           "notify:\n- webhook: SECRET", "notify:\n- webhook: [SECRET]"}) {
    const auto hooks = ParseNotifyFile(text, "n.yaml");
    ASSERT_FALSE(hooks.ok()) << text;
    EXPECT_THAT(hooks.status().message(), Not(HasSubstr("SECRET")));
  }
}

TEST(NotifyFile, NamesEachEventAsItIsWritten) {
  EXPECT_EQ(NameOf(HookEvent::kState), "state");
  EXPECT_EQ(NameOf(HookEvent::kFault), "fault");
  EXPECT_EQ(NameOf(HookEvent::kEnd), "end");
}

}  // namespace
}  // namespace longhaul::spec
