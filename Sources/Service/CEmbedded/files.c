// Written by scripts/embed-files.

#include "CEmbedded.h"

// #embed is a part of C23.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char migration_0[] = {
#embed "../../../migrations/0001_devices.sql"
};

static const unsigned char migration_1[] = {
#embed "../../../migrations/0002_pushes.sql"
};

static const unsigned char migration_2[] = {
#embed "../../../migrations/0003_callbacks.sql"
};

static const unsigned char migration_3[] = {
#embed "../../../migrations/0004_sharing.sql"
};

static const unsigned char migration_4[] = {
#embed "../../../migrations/0005_accounts.sql"
};

static const unsigned char migration_5[] = {
#embed "../../../migrations/0006_messages.sql"
};

static const unsigned char migration_6[] = {
#embed "../../../migrations/0007_webhooks.sql"
};

static const unsigned char migration_7[] = {
#embed "../../../migrations/0008_operator_keys.sql"
};

static const unsigned char migration_8[] = {
#embed "../../../migrations/0009_operation.sql"
};

static const unsigned char migration_9[] = {
#embed "../../../migrations/0010_audit.sql"
};

static const unsigned char migration_10[] = {
#embed "../../../migrations/0011_channels.sql"
};

static const unsigned char migration_11[] = {
#embed "../../../migrations/functions/account_summaries.sql"
};

static const unsigned char migration_12[] = {
#embed "../../../migrations/functions/advertising_begins.sql"
};

static const unsigned char migration_13[] = {
#embed "../../../migrations/functions/advertising_ends.sql"
};

static const unsigned char migration_14[] = {
#embed "../../../migrations/functions/commits_are_checked.sql"
};

static const unsigned char migration_15[] = {
#embed "../../../migrations/functions/database_run.sql"
};

static const unsigned char migration_16[] = {
#embed "../../../migrations/functions/delete_departed_relations.sql"
};

static const unsigned char migration_17[] = {
#embed "../../../migrations/functions/delete_unused_quota.sql"
};

static const unsigned char migration_18[] = {
#embed "../../../migrations/functions/device_change_is_stored.sql"
};

static const unsigned char migration_19[] = {
#embed "../../../migrations/functions/find_pushes.sql"
};

static const unsigned char migration_20[] = {
#embed "../../../migrations/functions/is_departure.sql"
};

static const unsigned char migration_21[] = {
#embed "../../../migrations/functions/limit_added_devices.sql"
};

static const unsigned char migration_22[] = {
#embed "../../../migrations/functions/limit_returned_device.sql"
};

static const unsigned char migration_23[] = {
#embed "../../../migrations/functions/list_audit_records.sql"
};

static const unsigned char migration_24[] = {
#embed "../../../migrations/functions/merge_share_events.sql"
};

static const unsigned char migration_25[] = {
#embed "../../../migrations/functions/message_summaries.sql"
};

static const unsigned char migration_26[] = {
#embed "../../../migrations/functions/message_tested_before.sql"
};

static const unsigned char migration_27[] = {
#embed "../../../migrations/functions/operator_keys_are_related.sql"
};

static const unsigned char migration_28[] = {
#embed "../../../migrations/functions/pending_share_statistics.sql"
};

static const unsigned char migration_29[] = {
#embed "../../../migrations/functions/push_awaits_approval.sql"
};

static const unsigned char migration_30[] = {
#embed "../../../migrations/functions/push_is_settled.sql"
};

static const unsigned char migration_31[] = {
#embed "../../../migrations/functions/push_open_probe.sql"
};

static const unsigned char migration_32[] = {
#embed "../../../migrations/functions/push_part_users.sql"
};

static const unsigned char migration_33[] = {
#embed "../../../migrations/functions/push_shown_state.sql"
};

static const unsigned char migration_34[] = {
#embed "../../../migrations/functions/push_summaries.sql"
};

static const unsigned char migration_35[] = {
#embed "../../../migrations/functions/push_user.sql"
};

static const unsigned char migration_36[] = {
#embed "../../../migrations/functions/push_user_batch.sql"
};

static const unsigned char migration_37[] = {
#embed "../../../migrations/functions/push_users.sql"
};

static const unsigned char migration_38[] = {
#embed "../../../migrations/functions/push_users_sent.sql"
};

static const unsigned char migration_39[] = {
#embed "../../../migrations/functions/push_waits_for.sql"
};

static const unsigned char migration_40[] = {
#embed "../../../migrations/functions/pushes_are_excludable.sql"
};

static const unsigned char migration_41[] = {
#embed "../../../migrations/functions/record_account.sql"
};

static const unsigned char migration_42[] = {
#embed "../../../migrations/functions/record_former_device.sql"
};

static const unsigned char migration_43[] = {
#embed "../../../migrations/functions/record_message.sql"
};

static const unsigned char migration_44[] = {
#embed "../../../migrations/functions/record_push.sql"
};

static const unsigned char migration_45[] = {
#embed "../../../migrations/functions/record_sender.sql"
};

static const unsigned char migration_46[] = {
#embed "../../../migrations/functions/record_withdrawal.sql"
};

static const unsigned char migration_47[] = {
#embed "../../../migrations/functions/run_wait.sql"
};

static const unsigned char migration_48[] = {
#embed "../../../migrations/functions/share_event_statistics.sql"
};

static const unsigned char migration_49[] = {
#embed "../../../migrations/functions/share_totals.sql"
};

static const unsigned char migration_50[] = {
#embed "../../../migrations/functions/tags_with_channel.sql"
};

static const unsigned char migration_51[] = {
#embed "../../../migrations/functions/user_has_left.sql"
};

static const unsigned char migration_52[] = {
#embed "../../../migrations/functions/uuid_v7.sql"
};

static const unsigned char migration_53[] = {
#embed "../../../migrations/functions/uuid_v7_floor.sql"
};

static const unsigned char migration_54[] = {
#embed "../../../migrations/functions/webhook_revision.sql"
};

static const unsigned char migration_55[] = {
#embed "../../../migrations/functions/withdraw_departed_devices.sql"
};

static const unsigned char migration_56[] = {
#embed "../../../migrations/functions/withdraw_oldest_devices.sql"
};

static const unsigned char migration_57[] = {
#embed "../../../migrations/functions/withdrawal.sql"
};

static const embedded_file migrations[] = {
    {"0001_devices.sql", migration_0, sizeof migration_0},
    {"0002_pushes.sql", migration_1, sizeof migration_1},
    {"0003_callbacks.sql", migration_2, sizeof migration_2},
    {"0004_sharing.sql", migration_3, sizeof migration_3},
    {"0005_accounts.sql", migration_4, sizeof migration_4},
    {"0006_messages.sql", migration_5, sizeof migration_5},
    {"0007_webhooks.sql", migration_6, sizeof migration_6},
    {"0008_operator_keys.sql", migration_7, sizeof migration_7},
    {"0009_operation.sql", migration_8, sizeof migration_8},
    {"0010_audit.sql", migration_9, sizeof migration_9},
    {"0011_channels.sql", migration_10, sizeof migration_10},
    {"functions/account_summaries.sql", migration_11, sizeof migration_11},
    {"functions/advertising_begins.sql", migration_12, sizeof migration_12},
    {"functions/advertising_ends.sql", migration_13, sizeof migration_13},
    {"functions/commits_are_checked.sql", migration_14, sizeof migration_14},
    {"functions/database_run.sql", migration_15, sizeof migration_15},
    {"functions/delete_departed_relations.sql", migration_16, sizeof migration_16},
    {"functions/delete_unused_quota.sql", migration_17, sizeof migration_17},
    {"functions/device_change_is_stored.sql", migration_18, sizeof migration_18},
    {"functions/find_pushes.sql", migration_19, sizeof migration_19},
    {"functions/is_departure.sql", migration_20, sizeof migration_20},
    {"functions/limit_added_devices.sql", migration_21, sizeof migration_21},
    {"functions/limit_returned_device.sql", migration_22, sizeof migration_22},
    {"functions/list_audit_records.sql", migration_23, sizeof migration_23},
    {"functions/merge_share_events.sql", migration_24, sizeof migration_24},
    {"functions/message_summaries.sql", migration_25, sizeof migration_25},
    {"functions/message_tested_before.sql", migration_26, sizeof migration_26},
    {"functions/operator_keys_are_related.sql", migration_27, sizeof migration_27},
    {"functions/pending_share_statistics.sql", migration_28, sizeof migration_28},
    {"functions/push_awaits_approval.sql", migration_29, sizeof migration_29},
    {"functions/push_is_settled.sql", migration_30, sizeof migration_30},
    {"functions/push_open_probe.sql", migration_31, sizeof migration_31},
    {"functions/push_part_users.sql", migration_32, sizeof migration_32},
    {"functions/push_shown_state.sql", migration_33, sizeof migration_33},
    {"functions/push_summaries.sql", migration_34, sizeof migration_34},
    {"functions/push_user.sql", migration_35, sizeof migration_35},
    {"functions/push_user_batch.sql", migration_36, sizeof migration_36},
    {"functions/push_users.sql", migration_37, sizeof migration_37},
    {"functions/push_users_sent.sql", migration_38, sizeof migration_38},
    {"functions/push_waits_for.sql", migration_39, sizeof migration_39},
    {"functions/pushes_are_excludable.sql", migration_40, sizeof migration_40},
    {"functions/record_account.sql", migration_41, sizeof migration_41},
    {"functions/record_former_device.sql", migration_42, sizeof migration_42},
    {"functions/record_message.sql", migration_43, sizeof migration_43},
    {"functions/record_push.sql", migration_44, sizeof migration_44},
    {"functions/record_sender.sql", migration_45, sizeof migration_45},
    {"functions/record_withdrawal.sql", migration_46, sizeof migration_46},
    {"functions/run_wait.sql", migration_47, sizeof migration_47},
    {"functions/share_event_statistics.sql", migration_48, sizeof migration_48},
    {"functions/share_totals.sql", migration_49, sizeof migration_49},
    {"functions/tags_with_channel.sql", migration_50, sizeof migration_50},
    {"functions/user_has_left.sql", migration_51, sizeof migration_51},
    {"functions/uuid_v7.sql", migration_52, sizeof migration_52},
    {"functions/uuid_v7_floor.sql", migration_53, sizeof migration_53},
    {"functions/webhook_revision.sql", migration_54, sizeof migration_54},
    {"functions/withdraw_departed_devices.sql", migration_55, sizeof migration_55},
    {"functions/withdraw_oldest_devices.sql", migration_56, sizeof migration_56},
    {"functions/withdrawal.sql", migration_57, sizeof migration_57},
};

const embedded_file *embedded_migration_at(size_t index) {
    return index < sizeof migrations / sizeof migrations[0] ? &migrations[index] : NULL;
}

static const unsigned char page_file_0[] = {
#embed "../../../Sources/Features/OperatorPage/ui/api.js"
};

static const unsigned char page_file_1[] = {
#embed "../../../Sources/Features/OperatorPage/ui/app.js"
};

static const unsigned char page_file_2[] = {
#embed "../../../Sources/Features/OperatorPage/ui/banner.js"
};

static const unsigned char page_file_3[] = {
#embed "../../../Sources/Features/OperatorPage/ui/copyable.js"
};

static const unsigned char page_file_4[] = {
#embed "../../../Sources/Features/OperatorPage/ui/dialog.js"
};

static const unsigned char page_file_5[] = {
#embed "../../../Sources/Features/OperatorPage/ui/dom.js"
};

static const unsigned char page_file_6[] = {
#embed "../../../Sources/Features/OperatorPage/ui/format.js"
};

static const unsigned char page_file_7[] = {
#embed "../../../Sources/Features/OperatorPage/ui/icon.svg"
};

static const unsigned char page_file_8[] = {
#embed "../../../Sources/Features/OperatorPage/ui/index.html"
};

static const unsigned char page_file_9[] = {
#embed "../../../Sources/Features/OperatorPage/ui/lists.js"
};

static const unsigned char page_file_10[] = {
#embed "../../../Sources/Features/OperatorPage/ui/live.js"
};

static const unsigned char page_file_11[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/new-check.js"
};

static const unsigned char page_file_12[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/new-draft.js"
};

static const unsigned char page_file_13[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/new-fields.js"
};

static const unsigned char page_file_14[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/new-form.js"
};

static const unsigned char page_file_15[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/new-message.js"
};

static const unsigned char page_file_16[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/new-recipients.js"
};

static const unsigned char page_file_17[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/new.js"
};

static const unsigned char page_file_18[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/overview.js"
};

static const unsigned char page_file_19[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/push-more.js"
};

static const unsigned char page_file_20[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/push.js"
};

static const unsigned char page_file_21[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/pushes.js"
};

static const unsigned char page_file_22[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/records-keys.js"
};

static const unsigned char page_file_23[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/records.js"
};

static const unsigned char page_file_24[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/sharing-bars.js"
};

static const unsigned char page_file_25[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/sharing-template.js"
};

static const unsigned char page_file_26[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/sharing.js"
};

static const unsigned char page_file_27[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/try-lines.js"
};

static const unsigned char page_file_28[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/try-push.js"
};

static const unsigned char page_file_29[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/try-share.js"
};

static const unsigned char page_file_30[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/try-story.js"
};

static const unsigned char page_file_31[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/try-trouble.js"
};

static const unsigned char page_file_32[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/try.js"
};

static const unsigned char page_file_33[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/user-more.js"
};

static const unsigned char page_file_34[] = {
#embed "../../../Sources/Features/OperatorPage/ui/pages/user.js"
};

static const unsigned char page_file_35[] = {
#embed "../../../Sources/Features/OperatorPage/ui/parts.js"
};

static const unsigned char page_file_36[] = {
#embed "../../../Sources/Features/OperatorPage/ui/screens.css"
};

static const unsigned char page_file_37[] = {
#embed "../../../Sources/Features/OperatorPage/ui/style.css"
};

static const unsigned char page_file_38[] = {
#embed "../../../Sources/Features/OperatorPage/ui/texts/en.json"
};

static const unsigned char page_file_39[] = {
#embed "../../../Sources/Features/OperatorPage/ui/texts/ko.json"
};

static const unsigned char page_file_40[] = {
#embed "../../../Sources/Features/OperatorPage/ui/texts/try.en.json"
};

static const unsigned char page_file_41[] = {
#embed "../../../Sources/Features/OperatorPage/ui/texts/try.ko.json"
};

static const unsigned char page_file_42[] = {
#embed "../../../Sources/Features/OperatorPage/ui/times.js"
};

static const unsigned char page_file_43[] = {
#embed "../../../Sources/Features/OperatorPage/ui/try.css"
};

static const embedded_file page_files[] = {
    {"api.js", page_file_0, sizeof page_file_0},
    {"app.js", page_file_1, sizeof page_file_1},
    {"banner.js", page_file_2, sizeof page_file_2},
    {"copyable.js", page_file_3, sizeof page_file_3},
    {"dialog.js", page_file_4, sizeof page_file_4},
    {"dom.js", page_file_5, sizeof page_file_5},
    {"format.js", page_file_6, sizeof page_file_6},
    {"icon.svg", page_file_7, sizeof page_file_7},
    {"index.html", page_file_8, sizeof page_file_8},
    {"lists.js", page_file_9, sizeof page_file_9},
    {"live.js", page_file_10, sizeof page_file_10},
    {"pages/new-check.js", page_file_11, sizeof page_file_11},
    {"pages/new-draft.js", page_file_12, sizeof page_file_12},
    {"pages/new-fields.js", page_file_13, sizeof page_file_13},
    {"pages/new-form.js", page_file_14, sizeof page_file_14},
    {"pages/new-message.js", page_file_15, sizeof page_file_15},
    {"pages/new-recipients.js", page_file_16, sizeof page_file_16},
    {"pages/new.js", page_file_17, sizeof page_file_17},
    {"pages/overview.js", page_file_18, sizeof page_file_18},
    {"pages/push-more.js", page_file_19, sizeof page_file_19},
    {"pages/push.js", page_file_20, sizeof page_file_20},
    {"pages/pushes.js", page_file_21, sizeof page_file_21},
    {"pages/records-keys.js", page_file_22, sizeof page_file_22},
    {"pages/records.js", page_file_23, sizeof page_file_23},
    {"pages/sharing-bars.js", page_file_24, sizeof page_file_24},
    {"pages/sharing-template.js", page_file_25, sizeof page_file_25},
    {"pages/sharing.js", page_file_26, sizeof page_file_26},
    {"pages/try-lines.js", page_file_27, sizeof page_file_27},
    {"pages/try-push.js", page_file_28, sizeof page_file_28},
    {"pages/try-share.js", page_file_29, sizeof page_file_29},
    {"pages/try-story.js", page_file_30, sizeof page_file_30},
    {"pages/try-trouble.js", page_file_31, sizeof page_file_31},
    {"pages/try.js", page_file_32, sizeof page_file_32},
    {"pages/user-more.js", page_file_33, sizeof page_file_33},
    {"pages/user.js", page_file_34, sizeof page_file_34},
    {"parts.js", page_file_35, sizeof page_file_35},
    {"screens.css", page_file_36, sizeof page_file_36},
    {"style.css", page_file_37, sizeof page_file_37},
    {"texts/en.json", page_file_38, sizeof page_file_38},
    {"texts/ko.json", page_file_39, sizeof page_file_39},
    {"texts/try.en.json", page_file_40, sizeof page_file_40},
    {"texts/try.ko.json", page_file_41, sizeof page_file_41},
    {"times.js", page_file_42, sizeof page_file_42},
    {"try.css", page_file_43, sizeof page_file_43},
};

const embedded_file *embedded_page_file_at(size_t index) {
    return index < sizeof page_files / sizeof page_files[0] ? &page_files[index] : NULL;
}
