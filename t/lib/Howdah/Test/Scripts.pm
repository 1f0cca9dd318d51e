package Howdah::Test::Scripts;

# A directory of CGI scripts, each made of its first line and its text, and a server that runs them.
#
#   my $scripts = Howdah::Test::Scripts->new('a.cgi' => "echo Status: 204\necho\n", 'b.pl' => "#!/usr/bin/perl\n...");
#   my $server  = $scripts->serve('exec', ['workers=2']);    # below /c
#   $scripts->get($server, 'a.cgi/info?q=1');                 # a response of Howdah::Test::Client
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;

sub new {
    my ($class, %texts) = @_;
    my $self = bless {dir => File::Temp->newdir('howdah-cgi-XXXXXX', TMPDIR => 1)}, $class;
    chmod 0755, $self->dir or die $!;
    $self->write($_, $texts{$_}) for keys %texts;
    return $self;
}

sub dir { return "$_[0]{dir}" }

# Text without a #! line is the shell's.
sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $name, $text) = @_;
    my $file = $self->dir . "/$name";
    open my $out, '>:raw', $file or die "cannot write $file: $!";
    print {$out} $text =~ /^#!/ ? $text : "#!/bin/sh\n$text";
    close $out or die "cannot write $file: $!";
    chmod 0755, $file or die $!;
    return $file;
}

# What a script has left in a file; undef for none.
sub read {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $name) = @_;
    open my $in, '<:raw', $self->dir . "/$name" or return;
    local $/;
    return scalar(<$in>) // '';
}

sub option {
    my ($self, $mode, @more) = @_;
    return ('--cgi', join ',', '/c=' . $self->dir, "mode=$mode", @more);
}

# With options of the mount, and of the server.
sub serve {
    my ($self, $mode, $more, @options) = @_;
    return Howdah::Test::Server->start(options => [$self->option($mode, @$more), @options]);
}

sub get {
    my ($self, $server, $path, @fields) = @_;
    my $head = join '', map { "$_\r\n" } "GET /c/$path HTTP/1.1", 'Host: x', @fields;
    return Howdah::Test::Client->ask($server, "$head\r\n");
}

1;
