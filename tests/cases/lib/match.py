"""match.py - is an answer what a case expects? Pure functions over JSON values and messages.

Only what is named is compared. Decimals compare as numbers, "" only equals "", integers of any
width as numbers, enums by name or number.
"""
from decimal import Decimal, InvalidOperation

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

# The string fields of the contract that carry a decimal; the other strings are names.
DECIMALS = frozenset("""
    amount ask average_price balance believed_volume bid broker_volume contract_size equity
    filled_volume fixed_volume free_margin freeze_distance max_absolute max_fraction max_order_volume
    max_price_deviation max_risk_coefficient max_total_volume max_volume measured min_notional
    min_volume multiplier open_price price remaining_volume risk_fraction stop_loss stop_price
    stops_distance take_profit tick_size up_to volume volume_step""".split())

INTEGERS = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32,
            FieldDescriptor.CPPTYPE_UINT64)


class BadCase(Exception):
    """The case itself says something that the contract or the README of the cases does not know."""


def same_decimal(expected, got):
    if expected == "" or got == "":
        return expected == got
    try:
        return Decimal(str(expected)) == Decimal(str(got))
    except InvalidOperation:
        return False


def field_of(descriptor, name):
    field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
    if field is None:
        raise BadCase("%s has no field %r" % (descriptor.full_name, name))
    return field


def enum_number(enum, value):
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if value not in enum.values_by_name:
        raise BadCase("%s has no value %r" % (enum.full_name, value))
    return enum.values_by_name[value].number


def enum_name(enum, number):
    value = enum.values_by_number.get(number)
    return value.name if value else number


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def same_scalar(field, expected, got):
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return same_message_value(field, expected, got)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return enum_number(field.enum_type, expected) == got
    if field.cpp_type in INTEGERS:
        return int(expected) == got
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING and field.name in DECIMALS:
        return same_decimal(expected, got)
    return expected == got


def same_message_value(field, expected, got):
    if not isinstance(expected, dict):  # Timestamp, Duration, FieldMask: their JSON is a string
        wanted = type(got)()
        json_format.ParseDict(expected, wanted)
        return wanted == got
    return differences(expected, got) == []


def value_for_people(field, value):
    """What a field holds, as the case would write it."""
    if field.label == FieldDescriptor.LABEL_REPEATED and not is_map(field):
        return [value_for_people_one(field, item) for item in value]
    return value_for_people_one(field, value)


def value_for_people_one(field, value):
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return enum_name(field.enum_type, value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE and not is_map(field):
        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    return dict(value) if is_map(field) else value


def differences(expected, got):
    """[(field, expected, got)] for each named field of a message that is not as expected."""
    found = []
    for name, wanted in expected.items():
        field = field_of(got.DESCRIPTOR, name)
        value = getattr(got, field.name)
        if is_map(field):
            same = wanted == dict(value)
        elif field.label == FieldDescriptor.LABEL_REPEATED:
            same = len(wanted) == len(value) and \
                all(same_scalar(field, one, other) for one, other in zip(wanted, value))
        else:
            same = same_scalar(field, wanted, value)
        if not same:
            found.append((name, wanted, value_for_people(field, value)))
    return found


def pair_up(expected, got, fits):
    """Gives each expected thing one of `got` that fits it, no thing twice. Answers the indices of
    the expected ones that are left without (augmenting paths: a greedy choice can be wrong)."""
    owner = [None] * len(got)

    def place(index, seen):
        for candidate in range(len(got)):
            if candidate in seen or not fits(expected[index], got[candidate]):
                continue
            seen.add(candidate)
            if owner[candidate] is None or place(owner[candidate], seen):
                owner[candidate] = index
                return True
        return False

    return [index for index in range(len(expected)) if not place(index, set())]


def as_multiset(expected, messages):
    """None when `messages` are the expected ones in any order; else (expected, got) for people."""
    left = pair_up(expected, messages, lambda wanted, message: differences(wanted, message) == [])
    if not left and len(expected) == len(messages):
        return None
    names = {name for wanted in expected for name in wanted}
    return expected, [only(message, names) for message in messages]


def only(message, names):
    """The named fields of a message as JSON; all that are set when none is named."""
    if not names:
        return json_format.MessageToDict(message, preserving_proto_field_name=True)
    result = {}
    for field in message.DESCRIPTOR.fields:
        if field.name in names:
            result[field.name] = value_for_people(field, getattr(message, field.name))
    return result
