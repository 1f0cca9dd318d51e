package Howdah::FakeProtocol;
use strict;
use warnings;

# The zygote's side of docs/zygote-protocol.md in Perl alone, for zygotes that have no C side. The numbers are those of
# xs/wire.h; t/00-unit/zygote-protocol.t holds this against the vectors, too.

use File::Basename qw(dirname);

use constant {ORDER => 'L5 a16', REPORT => 'L2 l2 a*'};

my %number = _numbers(dirname(__FILE__) . '/../../../../../xs/wire.h');

sub number { return $number{$_[1]} // die "xs/wire.h has no $_[1]" }

# Kind, worker, generation, flags, secret; empty when it is no order.
sub read_order {
    my ($class, $packet, $descriptors) = @_;
    return if length $packet != length pack ORDER, (0) x 5, '';
    my ($kind, $claimed, $worker, $generation, $flags, $secret) = unpack ORDER, $packet;
    my %may = (
        ATTACH  => $worker == 0 && scalar _is_attach($claimed, $flags, $secret),
        SEGMENT => $worker == 0 && $claimed == 1,
        SPAWN   => $worker < $number{MAX_WORKERS} && $claimed >= 1 && $claimed <= $number{MAX_FRONTS},
        STOP    => $worker == 0 && $claimed == 0,
        SIGNAL  => $worker < $number{MAX_WORKERS} && $claimed == 0 && $flags >= 1 && $flags <= $number{ZYGOTE_SIGNALS},
    );
    my ($name) = grep { $kind == $class->number("ZYGOTE_ORDER_$_") } keys %may;
    return if !$name || !$may{$name} || $claimed != $descriptors;
    return if $name ne 'ATTACH' && ($generation || $secret =~ /[^\0]/);
    return if $name !~ /\A(?:ATTACH|SIGNAL)\z/ && $flags;
    return ($kind, $worker, $generation, $flags, $secret);
}

sub _is_attach {
    my ($descriptors, $flags, $secret) = @_;
    my $errors = $flags & $number{ZYGOTE_ERRORS};
    my $fronts = $descriptors - 1 - !!$errors;
    return if $flags & ~($number{ZYGOTE_TITLES} | $number{ZYGOTE_ERRORS});
    return if $secret !~ ($errors ? qr/\A[!-~]{16}\z/ : qr/\A/);
    return $fronts >= 1 && $fronts <= $number{MAX_FRONTS};
}

sub write_report {
    my ($class, $kind, $worker, $pid, $status, $text) = @_;
    return substr pack(REPORT, $kind, $worker, $pid, $status, $text), 0, 65_536;
}

sub _numbers {
    open my $header, '<', shift or die "xs/wire.h: $!";
    return map { /^#define (\w+) (\d+)$/ || /^\s+([A-Z_]+) = (\d+),$/ ? ($1 => $2) : () } <$header>;
}

1;
