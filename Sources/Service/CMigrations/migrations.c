// Written by scripts/embed-migrations.

#include "CMigrations.h"

// #embed is a part of C23.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char file_0[] = {
#embed "../../../migrations/0001_devices.sql"
};

static const unsigned char file_1[] = {
#embed "../../../migrations/0002_pushes.sql"
};

static const unsigned char file_2[] = {
#embed "../../../migrations/0003_callbacks.sql"
};

static const unsigned char file_3[] = {
#embed "../../../migrations/0004_sharing.sql"
};

static const unsigned char file_4[] = {
#embed "../../../migrations/0005_accounts.sql"
};

static const unsigned char file_5[] = {
#embed "../../../migrations/0006_messages.sql"
};

static const unsigned char file_6[] = {
#embed "../../../migrations/0007_webhooks.sql"
};

static const unsigned char file_7[] = {
#embed "../../../migrations/0008_operator_keys.sql"
};

static const unsigned char file_8[] = {
#embed "../../../migrations/0009_operation.sql"
};

static const unsigned char file_9[] = {
#embed "../../../migrations/0010_audit.sql"
};

static const unsigned char file_10[] = {
#embed "../../../migrations/functions/account_summaries.sql"
};

static const unsigned char file_11[] = {
#embed "../../../migrations/functions/advertising_begins.sql"
};

static const unsigned char file_12[] = {
#embed "../../../migrations/functions/advertising_ends.sql"
};

static const unsigned char file_13[] = {
#embed "../../../migrations/functions/commits_are_checked.sql"
};

static const unsigned char file_14[] = {
#embed "../../../migrations/functions/database_run.sql"
};

static const unsigned char file_15[] = {
#embed "../../../migrations/functions/delete_unused_quota.sql"
};

static const unsigned char file_16[] = {
#embed "../../../migrations/functions/device_change_is_stored.sql"
};

static const unsigned char file_17[] = {
#embed "../../../migrations/functions/find_audit_records.sql"
};

static const unsigned char file_18[] = {
#embed "../../../migrations/functions/find_pushes.sql"
};

static const unsigned char file_19[] = {
#embed "../../../migrations/functions/is_departure.sql"
};

static const unsigned char file_20[] = {
#embed "../../../migrations/functions/limit_added_devices.sql"
};

static const unsigned char file_21[] = {
#embed "../../../migrations/functions/limit_returned_device.sql"
};

static const unsigned char file_22[] = {
#embed "../../../migrations/functions/merge_share_events.sql"
};

static const unsigned char file_23[] = {
#embed "../../../migrations/functions/message_last_tested_at.sql"
};

static const unsigned char file_24[] = {
#embed "../../../migrations/functions/message_summaries.sql"
};

static const unsigned char file_25[] = {
#embed "../../../migrations/functions/operator_keys_are_related.sql"
};

static const unsigned char file_26[] = {
#embed "../../../migrations/functions/pending_share_statistics.sql"
};

static const unsigned char file_27[] = {
#embed "../../../migrations/functions/push_awaits_approval.sql"
};

static const unsigned char file_28[] = {
#embed "../../../migrations/functions/push_is_settled.sql"
};

static const unsigned char file_29[] = {
#embed "../../../migrations/functions/push_open_probe.sql"
};

static const unsigned char file_30[] = {
#embed "../../../migrations/functions/push_part_users.sql"
};

static const unsigned char file_31[] = {
#embed "../../../migrations/functions/push_shown_state.sql"
};

static const unsigned char file_32[] = {
#embed "../../../migrations/functions/push_summaries.sql"
};

static const unsigned char file_33[] = {
#embed "../../../migrations/functions/push_user.sql"
};

static const unsigned char file_34[] = {
#embed "../../../migrations/functions/push_user_batch.sql"
};

static const unsigned char file_35[] = {
#embed "../../../migrations/functions/push_users_sent.sql"
};

static const unsigned char file_36[] = {
#embed "../../../migrations/functions/push_waits_for.sql"
};

static const unsigned char file_37[] = {
#embed "../../../migrations/functions/pushes_are_excludable.sql"
};

static const unsigned char file_38[] = {
#embed "../../../migrations/functions/record_account.sql"
};

static const unsigned char file_39[] = {
#embed "../../../migrations/functions/record_former_device.sql"
};

static const unsigned char file_40[] = {
#embed "../../../migrations/functions/record_message.sql"
};

static const unsigned char file_41[] = {
#embed "../../../migrations/functions/record_push.sql"
};

static const unsigned char file_42[] = {
#embed "../../../migrations/functions/record_sender.sql"
};

static const unsigned char file_43[] = {
#embed "../../../migrations/functions/record_withdrawal.sql"
};

static const unsigned char file_44[] = {
#embed "../../../migrations/functions/run_wait.sql"
};

static const unsigned char file_45[] = {
#embed "../../../migrations/functions/share_event_statistics.sql"
};

static const unsigned char file_46[] = {
#embed "../../../migrations/functions/share_totals.sql"
};

static const unsigned char file_47[] = {
#embed "../../../migrations/functions/user_has_left.sql"
};

static const unsigned char file_48[] = {
#embed "../../../migrations/functions/uuid_v7.sql"
};

static const unsigned char file_49[] = {
#embed "../../../migrations/functions/uuid_v7_floor.sql"
};

static const unsigned char file_50[] = {
#embed "../../../migrations/functions/webhook_revision.sql"
};

static const unsigned char file_51[] = {
#embed "../../../migrations/functions/withdraw_departed_devices.sql"
};

static const unsigned char file_52[] = {
#embed "../../../migrations/functions/withdraw_oldest_devices.sql"
};

static const unsigned char file_53[] = {
#embed "../../../migrations/functions/withdrawal.sql"
};

static const embedded_migration files[] = {
    {"0001_devices.sql", file_0, sizeof file_0},
    {"0002_pushes.sql", file_1, sizeof file_1},
    {"0003_callbacks.sql", file_2, sizeof file_2},
    {"0004_sharing.sql", file_3, sizeof file_3},
    {"0005_accounts.sql", file_4, sizeof file_4},
    {"0006_messages.sql", file_5, sizeof file_5},
    {"0007_webhooks.sql", file_6, sizeof file_6},
    {"0008_operator_keys.sql", file_7, sizeof file_7},
    {"0009_operation.sql", file_8, sizeof file_8},
    {"0010_audit.sql", file_9, sizeof file_9},
    {"functions/account_summaries.sql", file_10, sizeof file_10},
    {"functions/advertising_begins.sql", file_11, sizeof file_11},
    {"functions/advertising_ends.sql", file_12, sizeof file_12},
    {"functions/commits_are_checked.sql", file_13, sizeof file_13},
    {"functions/database_run.sql", file_14, sizeof file_14},
    {"functions/delete_unused_quota.sql", file_15, sizeof file_15},
    {"functions/device_change_is_stored.sql", file_16, sizeof file_16},
    {"functions/find_audit_records.sql", file_17, sizeof file_17},
    {"functions/find_pushes.sql", file_18, sizeof file_18},
    {"functions/is_departure.sql", file_19, sizeof file_19},
    {"functions/limit_added_devices.sql", file_20, sizeof file_20},
    {"functions/limit_returned_device.sql", file_21, sizeof file_21},
    {"functions/merge_share_events.sql", file_22, sizeof file_22},
    {"functions/message_last_tested_at.sql", file_23, sizeof file_23},
    {"functions/message_summaries.sql", file_24, sizeof file_24},
    {"functions/operator_keys_are_related.sql", file_25, sizeof file_25},
    {"functions/pending_share_statistics.sql", file_26, sizeof file_26},
    {"functions/push_awaits_approval.sql", file_27, sizeof file_27},
    {"functions/push_is_settled.sql", file_28, sizeof file_28},
    {"functions/push_open_probe.sql", file_29, sizeof file_29},
    {"functions/push_part_users.sql", file_30, sizeof file_30},
    {"functions/push_shown_state.sql", file_31, sizeof file_31},
    {"functions/push_summaries.sql", file_32, sizeof file_32},
    {"functions/push_user.sql", file_33, sizeof file_33},
    {"functions/push_user_batch.sql", file_34, sizeof file_34},
    {"functions/push_users_sent.sql", file_35, sizeof file_35},
    {"functions/push_waits_for.sql", file_36, sizeof file_36},
    {"functions/pushes_are_excludable.sql", file_37, sizeof file_37},
    {"functions/record_account.sql", file_38, sizeof file_38},
    {"functions/record_former_device.sql", file_39, sizeof file_39},
    {"functions/record_message.sql", file_40, sizeof file_40},
    {"functions/record_push.sql", file_41, sizeof file_41},
    {"functions/record_sender.sql", file_42, sizeof file_42},
    {"functions/record_withdrawal.sql", file_43, sizeof file_43},
    {"functions/run_wait.sql", file_44, sizeof file_44},
    {"functions/share_event_statistics.sql", file_45, sizeof file_45},
    {"functions/share_totals.sql", file_46, sizeof file_46},
    {"functions/user_has_left.sql", file_47, sizeof file_47},
    {"functions/uuid_v7.sql", file_48, sizeof file_48},
    {"functions/uuid_v7_floor.sql", file_49, sizeof file_49},
    {"functions/webhook_revision.sql", file_50, sizeof file_50},
    {"functions/withdraw_departed_devices.sql", file_51, sizeof file_51},
    {"functions/withdraw_oldest_devices.sql", file_52, sizeof file_52},
    {"functions/withdrawal.sql", file_53, sizeof file_53},
};

const embedded_migration *embedded_migration_at(size_t index) {
    return index < sizeof files / sizeof files[0] ? &files[index] : NULL;
}
